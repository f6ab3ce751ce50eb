import os
import sys

from basalt_server import binary

path = binary()
os.execv(path, [path, *sys.argv[1:]])

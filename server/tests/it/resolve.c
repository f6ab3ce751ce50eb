/* Resolves one name, BASALT_NAME, to the addresses that stand in a file, BASALT_NAME_FILE, one a line, for scale.rs: so a
 * name comes to mean other addresses while a process runs. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *name = getenv("BASALT_NAME"), *path = getenv("BASALT_NAME_FILE");
    if (!node || !name || !path || strcmp(node, name) != 0) return real(node, service, hints, found);
    FILE *file = fopen(path, "r");
    if (!file) return EAI_AGAIN;
    struct addrinfo *first = NULL, **last = &first;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || real(line, service, hints, last) != 0) continue;
        while (*last) last = &(*last)->ai_next;
    }
    fclose(file);
    if (!first) return EAI_NONAME;
    *found = first;
    return 0;
}

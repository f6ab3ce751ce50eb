"""Compares what the Helm chart renders with the manifests for kustomize, object by object and field by field, so that neither
drifts from the other. What only Helm has is left out: labels of the release, the program of the backup (which is compared with
deploy/backup), and what a change of settings restarts nodes by.

    python check_chart.py CHART MANIFESTS...     files of YAML: the chart's, and those that have the same objects
"""

import json
import pathlib
import re
import sys

import yaml

CHART = pathlib.Path("deploy/helm/basalt")
# Labels and annotations that only the chart has.
HELMS = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/", "checksum/")
# Where the order of a list means nothing. That of variables does: one may use those before it.
UNORDERED = {"volumes": "name", "volumeMounts": "name"}


def read(text):
    """The objects of a file, by kind and name."""
    # kustomize names a ConfigMap by what is in it.
    for name, suffix in re.findall(r"^  name: (\S+)-([bcdfghkmt24-9]{10})$", text, re.MULTILINE):
        text = text.replace(f"{name}-{suffix}", name)
    objects = {}
    for manifest in yaml.safe_load_all(text):
        name = (manifest["kind"], manifest["metadata"]["name"])
        assert name not in objects, f"{name} is there twice"
        if manifest["kind"] == "ConfigMap":
            # One that kustomize makes has none.
            manifest["metadata"].pop("labels", None)
        objects[name] = plain(manifest)
    return objects


def plain(value, key=None):
    """A manifest without what is Helm's alone."""
    if isinstance(value, list):
        value = [plain(item) for item in value]
        return sorted(value, key=lambda item: item[UNORDERED[key]]) if key in UNORDERED else value
    if not isinstance(value, dict):
        return value
    value = {name: plain(item, name) for name, item in value.items() if not name.startswith(HELMS)}
    if value.get("annotations") == {}:
        del value["annotations"]
    return value


def differences(path, ours, theirs):
    """Where two manifests are not the same, as lines."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(f"{path}.{key}", ours.get(key), theirs.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from differences(f"{path}[{index}]", *pair)
    elif ours != theirs:
        yield f"{path}: {json.dumps(ours)} of the chart, {json.dumps(theirs)} of kustomize"


def reserved(objects):
    """Those variables that the chart sets and that `settings` may set as well, to no effect."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    refused = schema["properties"]["settings"]["propertyNames"]["not"]["enum"]
    own = {name for (kind, _), manifest in objects.items() if kind == "ConfigMap" for name in manifest["data"]}
    for (kind, _), manifest in objects.items():
        if kind == "StatefulSet":
            own |= {variable["name"] for variable in manifest["spec"]["template"]["spec"]["containers"][0]["env"]}
    return sorted(name for name in own if name.startswith(("BASALT_", "AWS_")) and name not in refused)


def main():
    chart = read(pathlib.Path(sys.argv[1]).read_text())
    manifests = {}
    for file in sys.argv[2:]:
        manifests.update(read(pathlib.Path(file).read_text()))
    errors = [f"`settings` may have {name}, which the chart sets itself" for name in reserved(chart)]
    program = chart.pop(("ConfigMap", "basalt-backup"), None)
    if program and program["data"] != {"backup": pathlib.Path("deploy/backup").read_text()}:
        errors.append("the ConfigMap basalt-backup has another program than deploy/backup")
    for kind, name in sorted(chart.keys() | manifests.keys()):
        ours, theirs = chart.get((kind, name)), manifests.get((kind, name))
        if ours is None or theirs is None:
            errors.append(f"{kind} {name} is {'not in the chart' if ours is None else 'in the chart alone'}")
        else:
            errors += differences(f"{kind} {name}", ours, theirs)
    assert len(chart) >= 8, f"only {len(chart)} objects: is the chart still read?"
    if errors:
        sys.exit("\n".join([f"{sys.argv[1]}: the chart and the manifests for kustomize are not the same:", *errors]))


main()

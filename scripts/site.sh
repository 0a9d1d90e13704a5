#!/bin/sh
# Builds the site (mkdocs.yml) into build/site and checks every link within it. MkDocs comes from the package registry into
# build/site-tools, unless PYTHON names a Python that has it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
if [ -z "${PYTHON-}" ]; then
  [ -x build/site-tools/bin/python ] || python3 -m venv build/site-tools
  build/site-tools/bin/pip install -q -r docs/requirements.txt
  PYTHON=build/site-tools/bin/python
fi
export NO_MKDOCS_2_WARNING=1
site=${FA2_SITE_DIR:-build/site}
"$PYTHON" -m mkdocs build --strict --quiet --site-dir "$root/$site"
"$PYTHON" scripts/check-site.py "$site"

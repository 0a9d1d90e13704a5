import os
import shutil
import subprocess

import lit.formats

config.name = "fa2"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Unit", "Grid", "Mutation", "Integration", "Inputs"]
config.test_source_root = os.path.dirname(__file__)

tools = os.path.join(config.fa2_build, "bin")
config.environment["PATH"] = os.pathsep.join(
    [tools, config.llvm_tools, config.environment.get("PATH", os.environ.get("PATH", ""))])

# What is tested is the compiler, not what it kept.
config.environment["FA2_CACHE"] = "0"

config.substitutions.append(("%fa2_source", config.fa2_source))
config.substitutions.append(("%fa2_build", config.fa2_build))
config.substitutions.append(("%check_examples", config.python + " " + os.path.join(
    config.test_source_root, "Dialect", "check-examples.py")))
config.substitutions.append(("%td_flags", "-I " + config.mlir_include + " -I " + os.path.join(
    config.fa2_source, "include")))
config.substitutions.append(("%python", config.python))

# The Python that has numpy: the distribution's, where the one found first does not.
for python in (config.python, "/usr/bin/python3"):
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
        config.substitutions.append(("%numpy", python))
        config.available_features.add("numpy")
        break

# What a test may ask for with REQUIRES. The quick tier, `lit --param tier=quick`, leaves out what takes more than ten seconds. The full
# tier runs a fixed sample of the longest tests: `RUN: %if nightly_tests %{ ... %}` is a line that only the nightly tier runs.
tier = lit_config.params.get("tier", "full")
if tier not in ("quick", "full", "nightly"):
    lit_config.fatal(f"expected the tier to be quick, full or nightly, got '{tier}'")
if tier != "quick":
    config.available_features.add("long_tests")
if tier == "nightly":
    config.available_features.add("nightly_tests")
if shutil.which("ptxas", path=config.environment["PATH"]):
    config.available_features.add("ptxas")
if os.path.exists(os.path.join(tools, "fa2-run")):
    config.available_features.add("fa2-run")
if os.path.exists(os.path.join(tools, "fa2-interpret")):
    config.available_features.add("fa2-interpret")
if all(os.path.exists(os.path.join(tools, tool)) for tool in ("fa2-tune", "fa2-tune-build")):
    config.available_features.add("fa2-tune")

"""on-terminal.py COMMAND...: runs it with a terminal as its output, copies that to standard output; its exit status."""
import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))

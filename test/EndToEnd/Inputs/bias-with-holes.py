"""bias-with-holes.py FILE BATCH SEQLEN [VALUE]: a bias of a value a query, f32 [batch, seqlen], in which every seventh row is VALUE (default: -inf)."""
import array
import math
import struct
import sys

path, batch, seqlen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hole = float(sys.argv[4]) if len(sys.argv) > 4 else -math.inf
values = array.array("f", (hole if i % 7 == 3 else (i * 37 % 11) / 10 for i in range(batch * seqlen)))
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (batch, seqlen)
header += " " * ((64 - (10 + len(header) + 1) % 64) % 64) + "\n"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes())

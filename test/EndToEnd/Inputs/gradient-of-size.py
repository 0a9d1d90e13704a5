"""gradient-of-size.py FILE SIZE SHAPE...: writes numbers of about so much, of either sign, as .npy of f32."""

import math
import random
import struct
import sys

path, size, shape = sys.argv[1], float(sys.argv[2]), tuple(map(int, sys.argv[3:]))
rng = random.Random(1)
header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(path, "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    for _ in range(math.prod(shape)):
        out.write(struct.pack("<f", size * rng.uniform(-1, 1)))

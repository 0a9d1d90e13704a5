"""repeated-steps.py N: prints a program that adds a value to itself N times, one after the other, and multiplies it so."""
import sys

count = int(sys.argv[1])
q = "tensor<?x?x?x64xbf16>"
print(f"func.func @repeated(%q: {q}, %k: {q}, %v: {q}) -> ({q}, tensor<?x?x?xf32>) {{\n"
      f"  %o, %lse = fa2.attention ins(%q, %k, %v) : {q}, {q}, {q} -> {q}, tensor<?x?x?xf32>\n"
      "      score {\n      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):\n"
      "        %c = arith.constant 1.0e-9 : f32\n        %x0 = arith.mulf %s, %c : f32")
for i in range(count):
    print(f"        %x{i + 1} = arith.addf %x{i}, %x{i} : f32")
print(f"        %y0 = arith.mulf %x{count}, %c : f32")
for i in range(count):
    print(f"        %y{i + 1} = arith.mulf %y{i}, %y{i} : f32")
print(f"        %z = arith.addf %x{count}, %y{count} : f32\n        %r = arith.addf %z, %s : f32\n        fa2.yield %r : f32\n      }}\n"
      f"  return %o, %lse : {q}, tensor<?x?x?xf32>\n}}")

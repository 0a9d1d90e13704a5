"""repeated-steps.py KIND N: prints a program of N steps. itself: adds a value to itself, and multiplies it so. terms: adds so many to the score,
the score last."""
import sys

kind, count = sys.argv[1], int(sys.argv[2])
q = "tensor<?x?x?x64xbf16>"
print(f"func.func @repeated(%q: {q}, %k: {q}, %v: {q}, %scale: f32, %keys: tensor<?xf32>) -> ({q}, tensor<?x?x?xf32>) {{\n"
      f"  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras(%keys : tensor<?xf32>) {{extra_names = [\"keys\"]}} : {q}, {q}, {q} -> {q}, tensor<?x?x?xf32>\n"
      "      score {\n      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, %t: tensor<?xf32>):\n"
      "        %c = arith.constant 0.01 : f32\n        %key = tensor.extract %t[%j] : tensor<?xf32>")
steps = range(count)
if kind == "itself":
    print("        %x0 = arith.mulf %s, %c : f32")
    print("\n".join(f"        %x{i + 1} = arith.addf %x{i}, %x{i} : f32" for i in steps))
    print(f"        %y0 = arith.mulf %x{count}, %key : f32")
    print("\n".join(f"        %y{i + 1} = arith.mulf %y{i}, %y{i} : f32" for i in steps))
    print(f"        %z = arith.addf %x{count}, %y{count} : f32\n        %r = arith.addf %z, %s : f32")
else:
    print("        %far = arith.subi %j, %i : index\n        %near = arith.index_cast %far : index to i32\n"
          "        %d = arith.sitofp %near : i32 to f32\n        %x0 = arith.addf %key, %s : f32")
    for i in steps:
        print(f"        %c{i} = arith.constant {(i % 7 - 3) * 0.001} : f32\n        %a{i} = arith.mulf %d, %c{i} : f32\n"
              f"        %x{i + 1} = arith.addf %a{i}, %x{i} : f32")
    print(f"        %r = arith.addf %x{count}, %c : f32")
print(f"        fa2.yield %r : f32\n      }}\n  return %o, %lse : {q}, tensor<?x?x?xf32>\n}}")

"""Kernels that bench/latencies.py takes samples of, as PTX."""

from dataclasses import dataclass

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # of a chain of products
ROWS, PANELS, ROW_BYTES, GROUPS = 64, 2, 128, 3  # tiles of wgmma, in panels of 64 columns with 128-byte swizzle
A_BYTES, SLOTS, SLOT_BYTES = PANELS * ROWS * ROW_BYTES, 8, 16 << 10
ALONE = 120 << 10  # so much shared memory that a multiprocessor has one block
REDUCING, READING = 512, 1024  # threads of a block that reduces, or reads, with all multiprocessors
PATIENCE = 20_000_000  # clocks after a sample's start at which a kernel gives up a wait


def lines(texts):
    return "\n".join(f"  {text}" for text in texts)


def registers(first, count=4, prefix="x"):
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(count)) + "}"


def loop(body):
    return f"""  mov.u32 %n, %count;
LOOP:
  .pragma "nounroll";
{body}
  sub.u32 %n, %n, 1;
  setp.ne.u32 more, %n, 0;
  @more bra.uni LOOP;"""


def wait(barrier, phase, label):
    """All lanes wait; a wait that takes too long ends the kernel, whose sums then stay unwritten."""
    return f"""{label}:
  mbarrier.try_wait.parity.shared.b64 ok, [{barrier}], {phase};
  @ok bra.uni {label}_OVER;
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %start;
  setp.lt.u64 more, %now, {PATIENCE};
  @more bra.uni {label};
  ret;
{label}_OVER:"""


def issue(slot, size):
    """A copy of `size` bytes at %from to a slot, whose barrier is at 8 * slot."""
    return lines([f"@lead mbarrier.arrive.expect_tx.shared.b64 _, [%base + {8 * slot}], {size};",
                  "@lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                  f"[%base + {1024 + slot * size}], [%from], {size}, [%base + {8 * slot}];"])


def descriptor(name, address):
    """The shared-memory matrix at `address`, 128-byte swizzle (PTX ISA, "Matrix Descriptor Format")."""
    return lines([f"and.b32 %t, {address}, 0x3ffff;", "shr.u32 %t, %t, 4;", f"cvt.u64.u32 {name}, %t;",
                  f"or.b64 {name}, {name}, {16 >> 4 << 16 | 8 * ROW_BYTES >> 4 << 32 | 1 << 62};"])


def barriers(count):
    """Initialised by the block's first thread."""
    return "\n".join(["  setp.eq.u32 p, %thread, 0;",
                      *(f"  @p mbarrier.init.shared.b64 [%base + {8 * i}], 1;" for i in range(count)),
                      "  fence.proxy.async;\n  bar.sync 0;"])


@dataclass(frozen=True)
class Probe:
    """A kernel that takes samples of `timed`; `registers`, `setup` and `finish` are its own, `after` follows each sample."""

    name: str
    timed: str
    values: int = 0  # registers %x, each thread's own: loaded before, and in the sum after
    registers: str = ""
    setup: str = ""
    after: str = ""
    finish: str = ""
    threads: int = 1024  # at most
    shared: int = 0
    fill: int = 0  # bytes of shared memory that are loaded before
    empty: bool = False

    def filling(self):
        return f"""  shl.b32 %t, %thread, 4;
FILL:
  cvt.u64.u32 %from, %t;
  add.s64 %from, %from, %data;
  ld.global.v4.b32 {{%f0, %f1, %f2, %f3}}, [%from];
  add.u32 %n, %base, %t;
  st.shared.v4.b32 [%n], {{%f0, %f1, %f2, %f3}};
  shl.b32 %n, %threads, 4;
  add.u32 %t, %t, %n;
  setp.lt.u32 more, %t, {self.fill};
  @more bra FILL;
  fence.proxy.async;""" if self.fill else ""

    def body(self):
        loads = lines(f"ld.global.b32 %x{i}, [%mine + {4096 * i}];" for i in range(self.values))
        sums = lines(f"xor.b32 %sum, %sum, %x{i};" for i in range(self.values))
        return f"""
  .reg .pred p, ok, more, lead;
  .reg .b32 %thread, %threads, %block, %blocks, %warp, %base, %sample, %samples, %count, %step, %n, %t, %at, %sum;
  .reg .b32 %f<4>, %x<{self.values + 1}>;
  .reg .b64 %row, %rows, %data, %mine, %from, %start, %end, %now, %began, %ended;
{self.registers}
  ld.param.u64 %row, [rows];
  ld.param.u64 %data, [data];
  ld.param.u32 %samples, [samples];
  ld.param.u32 %count, [count];
  ld.param.u32 %step, [step];
  cvta.to.global.u64 %row, %row;
  cvta.to.global.u64 %data, %data;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %base, shared;
  mov.u32 %sum, 0;
  shr.u32 %warp, %thread, 5;
  redux.sync.min.u32 %warp, %warp, -1;
  elect.sync _|lead, -1;
  mul.wide.u32 %mine, %thread, 4;
  add.s64 %mine, %mine, %data;
  shr.u32 %n, %threads, 5;
  mul.wide.u32 %rows, %n, 32;
  mul.lo.u32 %t, %block, %samples;
  mad.lo.u32 %t, %t, %n, %warp;
  mul.wide.u32 %from, %t, 32;
  add.s64 %row, %row, %from;
{loads}
{self.filling()}
{self.setup}
  mov.u32 %sample, 0;
SAMPLE:
  mov.u64 %began, %globaltimer;
  bar.sync 0;
  mov.u64 %start, %clock64;
{self.timed}
  mov.u64 %end, %clock64;
  mov.u64 %ended, %globaltimer;
  @lead st.global.v2.u64 [%row], {{%start, %end}};
  @lead st.global.v2.u64 [%row + 16], {{%began, %ended}};
  add.s64 %row, %row, %rows;
{self.after}
  add.u32 %sample, %sample, 1;
  setp.lt.u32 more, %sample, %samples;
  @more bra SAMPLE;
{self.finish}
{sums}
  ld.param.u64 %row, [sums];
  cvta.to.global.u64 %row, %row;
  mad.lo.u32 %t, %block, %threads, %thread;
  mul.wide.u32 %from, %t, 4;
  add.s64 %row, %row, %from;
  st.global.b32 [%row], %sum;"""

    def ptx(self):
        return f""".version 8.1
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry probe(.param .u64 rows, .param .u64 sums, .param .u64 data, .param .u32 samples, .param .u32 count,
                      .param .u32 step)
.maxntid {self.threads}
{{{"" if self.empty else self.body()}
  ret;
}}
"""


def wgmma(columns, source, length, load=False):
    """`length` products m64nNk16 from fence to wait; a warpgroup has its own rows, and all of them one right operand."""
    sums, code = columns // 2, ["wgmma.fence.sync.aligned;"]
    for step in range(length):
        panel, column = divmod(step % (4 * PANELS), 4)
        code.append(f"add.s64 %b, %right, {panel * columns * ROW_BYTES + 32 * column >> 4};")
        if source == "shared":
            code.append(f"add.s64 %a, %left, {panel * ROWS * ROW_BYTES + 32 * column >> 4};")
        left, last = ("%a", ", 0, 0") if source == "shared" else (registers(0), ", 0")
        code.append(f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 "
                    f"{registers(0, sums, 'o')}, {left}, %b, p, 1, 1{last};")
    code += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    shared = GROUPS * A_BYTES + PANELS * columns * ROW_BYTES
    return Probe(
        f"wgmma-{columns}-{source}-{'load' if load else length}", loop(lines(code)) if load else lines(code), values=4,
        registers=f"  .reg .b64 %left, %right, %a, %b;\n  .reg .f32 %all, %o<{sums}>;",
        setup="\n".join(["  shr.u32 %n, %warp, 2;", f"  mad.lo.u32 %n, %n, {A_BYTES}, %base;", descriptor("%left", "%n"),
                         f"  add.u32 %n, %base, {GROUPS * A_BYTES};", descriptor("%right", "%n"),
                         lines(f"mov.f32 %o{i}, 0f00000000;" for i in range(sums)), "  setp.eq.u32 p, 0, 0;"]),
        finish=lines(["mov.f32 %all, 0f00000000;", *(f"add.f32 %all, %all, %o{i};" for i in range(sums)),
                      "mov.b32 %sum, %all;"]),
        threads=GROUPS * 128, shared=shared, fill=shared)


def arithmetic(name, instruction, chains, times, constants=0):
    """A loop of `times` instructions for each of so many chains; {x} is the chain's register, constants follow the chains."""
    return Probe(name, loop(lines([instruction.format(x=f"%x{i}", c=f"%x{chains}", d=f"%x{chains + 1}")
                                   for _ in range(times) for i in range(chains)])), values=chains + constants)


def shared_latency():
    """Each thread's 16 bytes begin with their own address."""
    chain = ["ld.shared.v4.b32 {%at, %x0, %x1, %x2}, [%at];", *(f"xor.b32 %x3, %x3, %x{i};" for i in range(3))]
    return Probe("shared-load-latency", loop(lines(chain * 32)), values=4, shared=1024, setup=lines([
        "mad.lo.u32 %at, %thread, 16, %base;", "st.shared.v4.b32 [%at], {%at, %x0, %x1, %x2};"]))


def shared_traffic(name, instruction, loads):
    """16 instructions, each of 512 bytes of a warp that are next to one another, in 8 KiB of the warp's own."""
    code = [instruction.format(values=registers(4 * i if loads else 0), offset=512 * i) for i in range(16)]
    if loads:
        code += [f"xor.b32 %x{64 + i % 4}, %x{64 + i % 4}, %x{i};" for i in range(64)]
    return Probe(name, loop(lines([*code, "add.u32 %at, %at, %step;"])), values=68 if loads else 4, threads=512,
                 shared=16 * 16 * 512, fill=16 * 16 * 512, finish="  bar.warp.sync -1;\n  ld.shared.b32 %sum, [%at];",
                 setup=lines(["and.b32 %t, %thread, 31;", "mad.lo.u32 %at, %t, 16, %base;",
                              f"mad.lo.u32 %at, %warp, {16 * 512}, %at;"]))


def copy(size):
    """One bulk copy by one warp, which waits for it."""
    return Probe(f"copy-{size >> 10}", issue(0, size) + "\n" + wait("%base", "%at", "WAIT"), threads=32, shared=1024 + size,
                 setup=barriers(1) + "\n  mov.u64 %from, %data;\n  mov.u32 %at, 0;",
                 after="  xor.b32 %at, %at, 1;\n  cvt.u64.u32 %now, %step;\n  add.s64 %from, %from, %now;",
                 finish="  ld.shared.b32 %sum, [%base + 1024];")


def copies():
    """A warp of each block keeps SLOTS bulk copies in flight; blocks take turns in a region of %step + 1 bytes."""
    start = [lines(["cvt.u64.u32 %from, %at;", "add.s64 %from, %from, %data;"]) + "\n" + issue(i, SLOT_BYTES) + "\n"
             + lines([f"mad.lo.u32 %at, %blocks, {SLOT_BYTES}, %at;", "and.b32 %at, %at, %step;"]) for i in range(SLOTS)]
    body = [part for i in range(SLOTS) for part in (wait(f"%base + {8 * i}", "%phase", f"SLOT{i}"), start[i])]
    drain = [wait(f"%base + {8 * i}", "%phase", f"LAST{i}") for i in range(SLOTS)]
    return Probe("copies", loop("\n".join([*body, "  xor.b32 %phase, %phase, 1;"])), registers="  .reg .b32 %phase;",
                 setup="\n".join([barriers(SLOTS), "  mov.u32 %phase, 0;", f"  mul.lo.u32 %at, %block, {SLOT_BYTES};",
                                  "  and.b32 %at, %at, %step;", "  mov.u64 %start, %clock64;", *start]),
                 finish="\n".join([*drain, "  ld.shared.b32 %sum, [%base + 1024];"]),
                 threads=32, shared=1024 + SLOTS * SLOT_BYTES)


def loads():
    """All threads of each block load 4 times 16 bytes; blocks take turns in a region of %step + 1 bytes."""
    size = 4 * 16 * READING
    code = ["cvt.u64.u32 %from, %at;", "add.s64 %from, %from, %own;",
            *(f"ld.global.v4.b32 {registers(4 * i)}, [%from + {16 * READING * i}];" for i in range(4)),
            f"mad.lo.u32 %at, %blocks, {size}, %at;", "and.b32 %at, %at, %step;",
            *(f"xor.b32 %x{16 + i % 4}, %x{16 + i % 4}, %x{i};" for i in range(16))]
    return Probe("loads", loop(lines(code)), values=20, registers="  .reg .b64 %own;", threads=READING, shared=ALONE,
                 setup=lines(["mul.wide.u32 %own, %thread, 16;", "add.s64 %own, %own, %data;",
                              f"mul.lo.u32 %at, %block, {size};", "and.b32 %at, %at, %step;"]))


def round_trip():
    """Two warps hand a phase to and fro; the first begins, once."""
    return Probe("mbarrier", loop("\n".join([wait("%inbox", "%at", "WAIT"), "  xor.b32 %at, %at, 1;",
                                             "  @lead mbarrier.arrive.shared.b64 _, [%outbox];"])),
                 registers="  .reg .b32 %inbox, %outbox;", threads=64, shared=1024,
                 setup=barriers(2) + "\n" + lines([
                     "mov.u32 %at, 0;", "mad.lo.u32 %inbox, %warp, 8, %base;", "xor.b32 %outbox, %inbox, 8;",
                     "setp.eq.u32 p, %thread, 0;", "@p mbarrier.arrive.shared.b64 _, [%outbox];"]))


def reductions(width):
    """8 reductions of each thread, to words of its own."""
    vector, operand = ("", "%one") if width == 1 else (f".v{width}", "{" + ", ".join(["%one"] * width) + "}")
    return Probe(f"reductions-{width}", loop(lines(
        f"red.global.add{vector}.f32 [%from + {4 * width * REDUCING * i}], {operand};" for i in range(8))),
        registers="  .reg .f32 %one;", threads=REDUCING, shared=ALONE,
        setup=lines(["mov.f32 %one, 0f3F800000;", f"mad.lo.u32 %t, %block, {8 * REDUCING}, %thread;",
                     f"mul.wide.u32 %from, %t, {4 * width};", "add.s64 %from, %from, %data;"]))


def pointers():
    """Each line holds the next one's address."""
    return Probe("pointers", loop(lines(["ld.global.b64 %from, [%from];"] * 4)), setup="  mov.u64 %from, %data;",
                 finish="  cvt.u32.u64 %sum, %from;\n  and.b32 %sum, %sum, 65535;")


def all_probes():
    """{name: Probe}"""
    ex2, fma, cvt = "ex2.approx.ftz.f32 {x}, {x};", "fma.rn.f32 {x}, {x}, {c}, {d};", "cvt.rn.bf16x2.f32 {x}, {x}, {c};"
    matrix, at = "matrix.sync.aligned.m8n8.x4", "[%at + {offset}]"
    probes = [
        *(wgmma(columns, source, length)
          for columns in (64, 128, 256) for source in ("shared", "registers") for length in LENGTHS),
        wgmma(256, "shared", 16, load=True), Probe("clock", ""), Probe("empty", "", empty=True),
        arithmetic("ex2-latency", ex2, 1, 64), arithmetic("ex2", ex2, 8, 8), arithmetic("fma-latency", fma, 1, 64, 2),
        arithmetic("fma", fma, 8, 32, 2), arithmetic("cvt", cvt, 8, 16, 1),
        arithmetic("shfl-latency", "shfl.sync.bfly.b32 {x}, {x}, 1, 31, -1;", 1, 32), shared_latency(),
        shared_traffic("ld.shared", f"ld.shared.v4.b32 {{values}}, {at};", True),
        shared_traffic("st.shared", f"st.shared.v4.b32 {at}, {{values}};", False),
        shared_traffic("ldmatrix", f"ld{matrix}.shared.b16 {{values}}, {at};", True),
        shared_traffic("ldmatrix-trans", f"ld{matrix}.trans.shared.b16 {{values}}, {at};", True),
        shared_traffic("stmatrix", f"st{matrix}.shared.b16 {at}, {{values}};", False),
        shared_traffic("stmatrix-trans", f"st{matrix}.trans.shared.b16 {at}, {{values}};", False),
        copy(1 << 10), copy(4 << 10), copy(16 << 10), copies(), loads(), round_trip(),
        Probe("bar.sync", loop(lines(["bar.sync 1;"] * 16))), reductions(1), reductions(4), pointers()]
    return {probe.name: probe for probe in probes}

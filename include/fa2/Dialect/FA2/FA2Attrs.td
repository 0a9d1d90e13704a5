//===- FA2Attrs.td - masks, schedules, specifications ------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2ATTRS_TD
#define FA2_DIALECT_FA2_FA2ATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "fa2/Dialect/FA2/FA2Dialect.td"
include "fa2/Dialect/FA2/FA2Interfaces.td"

class FA2_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FA2_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

def FA2_MaskKind : I32EnumAttr<"MaskKind", "which keys a row sees", [
    I32EnumAttrCase<"Causal", 0, "causal">,
    I32EnumAttrCase<"CausalTopLeft", 1, "causal_top_left">,
    I32EnumAttrCase<"StrictlyCausal", 2, "strictly_causal">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_MaskAttr : FA2_Attr<"Mask", "mask", [DeclareAttrInterfaceMethods<FA2_IntervalMask>]> {
  let summary = "a causal mask";
  let description = [{
    `causal` is aligned to the bottom right, as FlashAttention 2.1 and later do:
    row i sees the keys j <= i + seqlen_k - seqlen_q. `causal_top_left` is
    aligned to the top left: j <= i. Under `strictly_causal` a row sees only what
    is before it, aligned to the bottom right: j < i + seqlen_k - seqlen_q; where
    both lengths are one, row 0 sees no key. Without a mask, every row sees every key.

    Example: `#fa2.mask<causal>`, `#fa2.mask<strictly_causal>`.
  }];
  let parameters = (ins "::fa2::MaskKind":$kind);
  let assemblyFormat = "`<` $kind `>`";
}

def FA2_Partition : I32EnumAttr<"Partition", "how the warps of a block share its work", [
    I32EnumAttrCase<"SplitQ", 0, "split_q">,
    I32EnumAttrCase<"SplitK", 1, "split_k">,
    I32EnumAttrCase<"Keys", 2, "keys">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_GradQ : I32EnumAttr<"GradQ", "how the gradient of q is summed over key tiles", [
    I32EnumAttrCase<"Atomic", 0, "atomic">,
    I32EnumAttrCase<"Recompute", 1, "recompute">,
    I32EnumAttrCase<"AtomicV4", 2, "atomic_v4">,
    I32EnumAttrCase<"Ordered", 3, "ordered">,
    I32EnumAttrCase<"Deterministic", 4, "deterministic">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_TurnChange : I32EnumAttr<"TurnChange", "when a block passes on its turn at a sum", [
    I32EnumAttrCase<"AtOnce", 0, "at_once">,
    I32EnumAttrCase<"Late", 1, "late">,
    I32EnumAttrCase<"LateSeen", 2, "late_seen">,
    I32EnumAttrCase<"ByRoles", 3, "by_roles">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_TurnChangeAttr : EnumAttr<FA2_Dialect, FA2_TurnChange, "turn_change"> {
  let assemblyFormat = "`<` $value `>`";
}

def FA2_LoopOrder : I32EnumAttr<"LoopOrder", "in which order a loop's products start", [
    I32EnumAttrCase<"Written", 0, "written">,
    I32EnumAttrCase<"ScoresFirst", 1, "scores_first">,
    I32EnumAttrCase<"KeysBehind", 2, "keys_behind">,
    I32EnumAttrCase<"GradientsBehind", 3, "gradients_behind">,
    I32EnumAttrCase<"Derived", 4, "derived">,
    I32EnumAttrCase<"KeysBehindLean", 5, "keys_behind_lean">,
    I32EnumAttrCase<"ValuesFirst", 6, "values_first">,
    I32EnumAttrCase<"ScoresBetween", 7, "scores_between">,
    I32EnumAttrCase<"ValuesBehind", 8, "values_behind">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_Chain : I32EnumAttr<"Chain", "when the next kernel of a program may start", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Late", 1, "late">,
    I32EnumAttrCase<"Early", 2, "early">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_Preload : I32EnumAttr<"Preload", "which rows' statistics the products of scores begin with", [
    I32EnumAttrCase<"Delta", 0, "delta">,
    I32EnumAttrCase<"None", 1, "none">,
    I32EnumAttrCase<"Both", 2, "both">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_CacheHint : I32EnumAttr<"CacheHint", "how long the level-2 cache keeps what is touched", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"EvictFirst", 1, "evict_first">,
    I32EnumAttrCase<"EvictLast", 2, "evict_last">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_CacheHintAttr : EnumAttr<FA2_Dialect, FA2_CacheHint, "cache"> {
  let assemblyFormat = "`<` $value `>`";
}

def FA2_TileOrder : I32EnumAttr<"TileOrder", "in which order tiles start: of queries, in backward of keys", [
    I32EnumAttrCase<"Ascending", 0, "ascending">,
    I32EnumAttrCase<"LongestFirst", 1, "longest_first">,
    I32EnumAttrCase<"Interleaved", 2, "interleaved">,
    I32EnumAttrCase<"ShortestFirst", 3, "shortest_first">,
    I32EnumAttrCase<"Descending", 4, "descending">,
    I32EnumAttrCase<"BatchesAbreast", 5, "batches_abreast">,
    I32EnumAttrCase<"LongestBatchesAbreast", 6, "longest_batches_abreast">,
    I32EnumAttrCase<"Balanced", 7, "balanced">,
    I32EnumAttrCase<"InterleavedBatchesAbreast", 8, "interleaved_batches_abreast">,
    I32EnumAttrCase<"ShortestThenLongest", 9, "shortest_then_longest">]> {
  let cppNamespace = "::fa2";
  let genSpecializedAttr = 0;
}

def FA2_TileOrderAttr : EnumAttr<FA2_Dialect, FA2_TileOrder, "tile_order">;

def FA2_WarpGridAttr : FA2_Attr<"WarpGrid", "warps"> {
  let summary = "how the warps of a block share a product";
  let description = [{
    The result is cut into `down` x `across` equal parts, one a warp. With `sums = n`, n such
    grids of warps each sum over keys of their own, for all of the result; the sums are
    combined later.

    Example: `#fa2.warps<4 x 2>`, `#fa2.warps<1 x 1, sums = 4>`.
  }];
  let parameters = (ins "int64_t":$down, "int64_t":$across, DefaultValuedParameter<"int64_t", "1">:$sums);
  let assemblyFormat = "`<` $down `x` $across (`,` `sums` `=` $sums^)? `>`";
  let genVerifyDecl = 1;
}

def FA2_SumOrderAttr : FA2_Attr<"SumOrder", "order"> {
  let summary = "the order of a sum's elements in memory: that of the registers that are added";
  let description = [{
    The sum's tiles are whole. Within the bytes of one, elements lie in the order in which a product
    over `warps` holds them in registers, `width` of a thread together, so that what a warp adds
    are neighbours.

    Example: `#fa2.order<<4 x 2>, width = 4>`.
  }];
  let parameters = (ins "::fa2::WarpGridAttr":$warps, DefaultValuedParameter<"int64_t", "1">:$width);
  let assemblyFormat = "`<` $warps (`,` `width` `=` $width^)? `>`";
  let genVerifyDecl = 1;
}

def FA2_ScheduleAttr : FA2_Attr<"Schedule", "schedule"> {
  let summary = "how a kernel is tiled, staged and shared among warps";
  let description = [{
    Chosen by `fa2-select-schedule`, or written by hand. `target` is the architecture, such as
    "sm_80". The other fields are the lines of `ScheduleFields.def`, which has their meanings,
    ranges and defaults; `fa2-compile --help` prints them.

    Example: `#fa2.schedule<target = "sm_80", block_q = 128, block_kv = 64,
    warps = 4>`.
  }];
  let parameters = (ins StringRefParameter<>:$target,
    AttrParameter<"::fa2::Schedule", "the fields", "const ::fa2::Schedule &">:$fields);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
#define FA2_SCHEDULE_FIELD(TYPE, MEMBER, GETTER, ...)                         \
    TYPE get##GETTER() const { return getFields().MEMBER; }
#include "fa2/Dialect/FA2/ScheduleFields.def"
    /// Warps along the keys, and along the rows of dQ, of partition `keys`.
    int64_t warpsAlongKeys() const { return getFields().derived().keyWarps; }
    int64_t warpsAlongGradQ() const { return getFields().derived().dqWarps; }
    /// All warps that multiply dS with the keys.
    int64_t warpsOfGradQ() const { return getFields().warpsOfGradQ(); }

    /// The first field by which backward's kernel of keys differs from one of `other` so that the
    /// kernels around it do too; empty where they are the same.
    ::llvm::StringRef differsAround(ScheduleAttr other) const;

    /// The first field by which a kernel of this schedule may give a row other bits than one of
    /// `other`; empty where both are of one class of bits.
    ::llvm::StringRef differsInBits(ScheduleAttr other) const;
  }];
}

def FA2_GuardAttr : FA2_Attr<"Guard", "guard"> {
  let summary = "when a kernel is launched: an expression over lengths, heads and the device";
  let description = [{
    An expression in the grammar of docs/manifest.md; the kernel is launched where it is
    not 0. Its names are `batch`, `seqlen_q`, `seqlen_k`, `heads`, `heads_kv` and `device`'s
    fields. One that reads `batch` chooses only between schedules of one class of bits
    (`#fa2.variant`). A kernel's may read strides of its arguments too,
    how their addresses lie (`bias.misalignment`), and extents of what a program reads, where no
    coordinate says them (`table_1`, that of its second dimension); a variant's may not.

    Examples: `#fa2.guard<"seqlen_k <= 1024">`, `#fa2.guard<"bias.stride[2] % 8 == 0">`.
  }];
  let parameters = (ins StringRefParameter<>:$expression);
  let assemblyFormat = "`<` $expression `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether `batch` is one of its names.
    bool readsBatch() const;
    /// Whether strides, addresses or own extents of arguments are.
    bool readsLayouts() const;
  }];
}

def FA2_VariantAttr : FA2_Attr<"Variant", "variant"> {
  let summary = "a second schedule, for launches where a guard holds";
  let description = [{
    The first variant whose guard holds is launched, or else the operation's own schedule.

    A sequence gets the same bits in every batch. So a variant whose guard reads `batch` is of
    one class of bits with the schedules after it, up to a variant whose guard is part of its own
    (`seqlen_k <= 512` of `seqlen_k <= 512 && batch < 8`): such schedules sum in the same order
    and scale by the same maxima, whatever rows a block takes.

    With `after`, the operation's own schedule takes the first so many rows of every head and this
    one the rest, in one launch of the program: large tiles for whole rounds of the device's
    multiprocessors, smaller ones for what is left. That is for rows which are all alike (no
    mask, no score program, no dropout) and for schedules of one class of bits.

    Examples: `#fa2.variant<when = <"seqlen_k <= 1024">, schedule = <target = "sm_80", block_q = 64,
    block_kv = 64, warps = 4>>`, `#fa2.variant<when = <"seqlen_q > 384">, after = <"384">, schedule =
    <target = "sm_90a", block_q = 128, block_kv = 64, warps = 8>>`.
  }];
  let parameters = (ins "::fa2::GuardAttr":$when, OptionalParameter<"::fa2::GuardAttr">:$after,
    "::fa2::ScheduleAttr":$schedule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FA2_RowsAttr : FA2_Attr<"Rows", "rows"> {
  let summary = "a part of every head's rows, for which a kernel is launched where a guard holds";
  let description = [{
    `count` rows from row `from` on, both expressions in the grammar of guards. The launch sees
    `seqlen_q` as `count`, and tensors that have it begin at row `from`.

    Example: `#fa2.rows<when = <"seqlen_q > 384">, from = <"384">, count = <"seqlen_q - 384">>`.
  }];
  let parameters = (ins "::fa2::GuardAttr":$when, "::fa2::GuardAttr":$from, "::fa2::GuardAttr":$count);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// Whether these are the first rows, in front of which no other kernel has any.
    bool areFirst() const { return getFrom().getExpression() == "0"; }
  }];
}

def FA2_StepAttr : FA2_Attr<"Step", "step"> {
  let summary = "one operation of a score program";
  let description = [{
    The operation's name, the numbers of its operands among the program's values, its
    result's type and what else it has (a constant's value, a comparison's predicate).

    Example: `#fa2.step<"arith.mulf"(0, 5) : f32>`, `#fa2.step<"arith.constant" : f32 = 2.5 : f32>`.
  }];
  let parameters = (ins StringRefParameter<>:$op, OptionalArrayRefParameter<"int64_t">:$operands,
    OptionalParameter<"::mlir::Attribute">:$value, "::mlir::Type":$type);
  let assemblyFormat = "`<` $op (`(` $operands^ `)`)? `:` $type (`=` $value^)? `>`";
}

def FA2_ProgramAttr : FA2_Attr<"Program", "program"> {
  let summary = "a score program, for the manifest";
  let description = [{
    Its values are numbered: the score, batch, head, row and column are 0 to 4, then come the
    operands that it reads, by the names of `reads`, then the results of `steps`. `result` is
    the number of the new score.

    Example: `#fa2.program<reads = ["cap"], steps = [<"arith.divf"(0, 5) : f32>, <"math.tanh"(6) : f32>], result = 7>`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::StringAttr">:$reads,
    OptionalArrayRefParameter<"::fa2::StepAttr">:$steps, "int64_t":$result);
  let assemblyFormat = [{
    `<` (`reads` `=` `[` $reads^ `]` `,`)? (`steps` `=` `[` $steps^ `]` `,`)? `result` `=` $result `>`
  }];
}

def FA2_SpecAttr : FA2_Attr<"Spec", "spec"> {
  let summary = "what a kernel computes, for the manifest";
  let description = [{
    `score_program` is the program that scores pass through.

    Example: `#fa2.spec<pass = "forward", dtype = bf16, head_dim = 128,
    head_dim_v = 128, mask = #fa2.mask<causal>>`.
  }];
  let parameters = (ins
    StringRefParameter<>:$pass, "::mlir::Type":$dtype,
    "int64_t":$head_dim, "int64_t":$head_dim_v,
    OptionalParameter<"::mlir::Attribute">:$mask,
    OptionalParameter<"::fa2::ProgramAttr">:$score_program);
  let assemblyFormat = "`<` struct(params) `>`";
}

def FA2_ArgumentAttr : FA2_Attr<"Argument", "arg"> {
  let summary = "a kernel argument: its name, direction, named dimensions and type";
  let description = [{
    `dims` names each extent (a string) or fixes it (an integer); it is empty for
    a scalar. `dtype` is the element's or the scalar's type. `default_value` and
    `require` ("positive_finite", "invertible" or "finite", of an f32) belong to a scalar: what
    a launcher takes for it and checks, docs/manifest.md. Directions are "in", "out",
    "inout" and "workspace": memory that the kernels of one program share, packed, whose
    extents may be expressions. With `broadcast` an input's elements are read one by one: any
    of its extents may be 1 in place of its dimension's, and its strides are any.

    Example: `#fa2.arg<"q", "in", ["batch", "seqlen_q", "heads", 128] x bf16>`,
    `#fa2.arg<"slopes", "in", ["heads"] x f32 broadcast true>`.
  }];
  let parameters = (ins StringRefParameter<>:$name, StringRefParameter<>:$direction,
    "::mlir::ArrayAttr":$dims, "::mlir::Type":$dtype,
    OptionalParameter<"::mlir::FloatAttr">:$default_value,
    OptionalParameter<"::mlir::StringAttr">:$require,
    DefaultValuedParameter<"bool", "false">:$broadcast);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$name, "::llvm::StringRef":$direction,
    "::mlir::ArrayAttr":$dims, "::mlir::Type":$dtype, "::mlir::FloatAttr":$default_value,
    "::mlir::StringAttr":$require),
    "return $_get($_ctxt, name, direction, dims, dtype, default_value, require, false);">];
  let assemblyFormat = [{
    `<` $name `,` $direction `,` $dims `x` $dtype (`,` $default_value^)? (`require` $require^)?
    (`broadcast` $broadcast^)? `>`
  }];
  let genVerifyDecl = 1;
}

#endif

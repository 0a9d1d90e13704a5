//===- FA2GPUAttrs.td - layouts and instruction families ---*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPUATTRS_TD
#define FA2_DIALECT_FA2GPU_FA2GPUATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "fa2/Dialect/FA2GPU/FA2GPUDialect.td"
include "fa2/Dialect/FA2GPU/FA2GPUInterfaces.td"

class FA2GPU_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FA2GPU_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

def FA2GPU_MmaSyncAttr : FA2GPU_Attr<"MmaSync", "mma_sync",
    [DeclareAttrInterfaceMethods<FA2GPU_MatmulFamily>]> {
  let summary = "mma.sync m16n8k16 with f32 accumulation (sm_80 and later)";
  let description = [{
    PTX ISA, "Matrix Fragments for mma.m16n8k16". A block of 16 x 8 accumulators,
    16 x 16 elements of A and 16 x 8 of B lie in the 32 lanes of one warp.

    Example: `#fa2gpu.mma_sync`.
  }];
}

def FA2GPU_WgmmaAttr : FA2GPU_Attr<"Wgmma", "wgmma",
    [DeclareAttrInterfaceMethods<FA2GPU_MatmulFamily>]> {
  let summary = "wgmma.mma_async m64nNk16 with f32 accumulation (sm_90a)";
  let description = [{
    PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16". Four warps issue one
    instruction together, each for 16 of its 64 rows; a warp's accumulators are
    16 x 8 fragments side by side, distributed as those of mma.sync are, and A in registers
    has the fragment of mma.sync's A. B lies in shared memory.

    Example: `#fa2gpu.wgmma`.
  }];
}

def FA2GPU_LanesAttr : FA2GPU_Attr<"Lanes", "lanes",
    [DeclareAttrInterfaceMethods<FA2GPU_MatmulFamily>]> {
  let summary = "no instruction: 32 rows are a warp's lanes";
  let description = [{
    Nothing is multiplied. What a role computes for others, a value a row, is so computed once, and not in each of the
    lanes that have the row's accumulators.

    Example: `#fa2gpu.lanes`.
  }];
}

def FA2GPU_Partial : I32EnumAttr<"Partial", "over what a row vector is still to be reduced", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Lanes", 1, "lanes">]> {
  let cppNamespace = "::fa2::gpu";
  let genSpecializedAttr = 0;
}

def FA2GPU_AccAttr : FA2GPU_Attr<"Acc", "acc",
    [DeclareAttrInterfaceMethods<FA2GPU_DistributedLayout>]> {
  let summary = "the layout of a matmul's accumulator";
  let description = [{
    Warps that issue an instruction together (one of mma.sync, four of wgmma) are a group.
    The tile is cut into `groups[0]` x `groups[1]` equal parts, one a group: group g has part
    (g / groups[1], g % groups[1]). The warps of a group lie one below the other, and each
    one's part is cut into the family's accumulator fragments, rows first. With
    `split_k = n`, n groups hold a private tile each: sums over different keys, to be
    combined at the end.

    1. Two numbers of groups, each at least 1.
    2. `split_k` at least 1, and 1 where a group has several warps.

    Example: `#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>`.
  }];
  let parameters = (ins "::fa2::gpu::MatmulFamilyAttr":$family,
    ArrayRefParameter<"int64_t">:$groups, DefaultValuedParameter<"int64_t", "1">:$split_k);
  let assemblyFormat = "`<` $family `,` `groups` `=` `[` $groups `]` (`,` `split_k` `=` $split_k^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The grid of warps over which the tile is cut.
    int64_t warpRows() const { return getGroups()[0] * getFamily().warpsPerInstruction(); }
    int64_t warpCols() const { return getGroups()[1]; }
  }];
}

def FA2GPU_OperandAttr : FA2GPU_Attr<"Operand", "operand",
    [DeclareAttrInterfaceMethods<FA2GPU_DistributedLayout>]> {
  let summary = "the layout of a matmul's left operand in registers";
  let description = [{
    The same distribution over warps as that of the accumulator `acc`, in the
    fragments of operand A, packed by pairs into 32-bit registers. With `whole`, groups that
    share the accumulator's columns have a copy each, of all columns.

    Example: `#fa2gpu.operand<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>`.
  }];
  let parameters = (ins "::fa2::gpu::AccAttr":$acc, DefaultValuedParameter<"bool", "false">:$whole);
  let assemblyFormat = "`<` $acc (`,` `whole` `=` $whole^)? `>`";
  let builders = [AttrBuilder<(ins "::fa2::gpu::AccAttr":$acc), "return $_get($_ctxt, acc, false);">];
}

def FA2GPU_RowAttr : FA2GPU_Attr<"Row", "row"> {
  let summary = "the layout of a value a row of an accumulator tile";
  let description = [{
    Each thread holds the values of the rows it holds elements of. `partial = lanes`:
    the value is the sum over the lanes that share the row, not yet taken.

    Example: `#fa2gpu.row<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>, partial = lanes>`.
  }];
  let parameters = (ins "::fa2::gpu::AccAttr":$acc,
    DefaultValuedParameter<"::fa2::gpu::Partial", "::fa2::gpu::Partial::None">:$partial);
  let assemblyFormat = "`<` $acc (`,` `partial` `=` $partial^)? `>`";
}

def FA2GPU_ColumnAttr : FA2GPU_Attr<"Column", "column"> {
  let summary = "the layout of a value a column of an accumulator tile";
  let description = [{
    Each thread holds the values of the columns it holds elements of.

    Example: `#fa2gpu.column<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>>`.
  }];
  let parameters = (ins "::fa2::gpu::AccAttr":$acc);
  let assemblyFormat = "`<` $acc `>`";
}

def FA2GPU_DiagonalAttr : FA2GPU_Attr<"Diagonal", "diagonal"> {
  let summary = "the layout of a value a diagonal of an accumulator tile of so many rows";
  let description = [{
    A warp holds the values of the diagonals that cross its own part, in windows of 32 lanes: lane l of register m has diagonal
    `16 (m + first) - 8 + l`, counted from the part's upper left corner to the right, `first` being that of the lower left corner.
    A window begins 16 behind the one before, so that what lanes need of any 8 columns beside each other lies in one register, a shuffle
    away.

    Example: `#fa2gpu.diagonal<#fa2gpu.acc<#fa2gpu.mma_sync, groups = [4, 1]>, rows = 64>`.
  }];
  let parameters = (ins "::fa2::gpu::AccAttr":$acc, "int64_t":$rows);
  let assemblyFormat = "`<` $acc `,` `rows` `=` $rows `>`";
}

def FA2GPU_SharedAttr : FA2GPU_Attr<"Shared", "shared"> {
  let summary = "the swizzled layout of a tile in shared memory";
  let description = [{
    The columns are cut into panels of 128, 64 or 32 bytes (64, 32 or 16 columns of
    16 bits; as many wide ones as fit, then narrower ones), rounded up to 32 bytes in
    all. A panel stores row after row; within it, the 16-byte chunk c of row r lies at
    place c ^ (r mod 8), c ^ (r/2 mod 4) or c ^ (r/4 mod 2), as the tensor-map swizzles of
    128, 64 and 32 bytes do. Eight consecutive rows of one chunk then fall into
    eight different bank groups. With `panel`, every panel is that many bytes wide and
    the columns are padded to whole panels, as one tensor map brings them. With `parts`,
    they are padded until so many warps can split them: to multiples of 16 columns each,
    in the widest panels that all parts fall into alike; or, with `panel`, until so many
    warpgroups can, to whole panels each.

    An `unaligned` tile has each row as memory has it, from the chunk on (a multiple of 16 bytes) that holds its first
    element: that is any of the first chunk. A row has one chunk more than its elements fill, so that eight consecutive rows begin
    in eight different groups of four banks. Nothing is swizzled.

    Example: `#fa2gpu.shared`, `#fa2gpu.shared<panel = 128>`, `#fa2gpu.shared<parts = 4>`, `#fa2gpu.shared<unaligned = true>`.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "0">:$panel,
    DefaultValuedParameter<"int64_t", "1">:$parts, DefaultValuedParameter<"bool", "false">:$unaligned);
  let builders = [AttrBuilder<(ins "int64_t":$panel), "return $_get($_ctxt, panel, 1, false);">,
    AttrBuilder<(ins "int64_t":$panel, "int64_t":$parts), "return $_get($_ctxt, panel, parts, false);">];
  let assemblyFormat = "(`<` struct(params)^ `>`)?";
}

def FA2GPU_RoleAttr : FA2GPU_Attr<"Role", "role"> {
  let summary = "a role of a block: its name, its warps, and the registers of each of their threads";
  let description = [{
    A kernel's plan has a list of them.

    Example: `#fa2gpu.role<"copy", 4 warps, 24 registers>`.
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$warps, "int64_t":$registers);
  let assemblyFormat = "`<` $name `,` $warps `warps` `,` $registers `registers` `>`";
}

def FA2GPU_CopiedBy : I32EnumAttr<"CopiedBy", "who copies tiles from global memory", [
    I32EnumAttrCase<"Open", 0, "open">,
    I32EnumAttrCase<"Threads", 1, "threads">,
    I32EnumAttrCase<"Engine", 2, "engine">]> {
  let cppNamespace = "::fa2::gpu";
  let genSpecializedAttr = 0;
}

def FA2GPU_TilesFrom : I32EnumAttr<"TilesFrom", "how a block comes by its tiles", [
    I32EnumAttrCase<"Open", 0, "open">,
    I32EnumAttrCase<"Grid", 1, "grid">,
    I32EnumAttrCase<"Queue", 2, "queue">]> {
  let cppNamespace = "::fa2::gpu";
  let genSpecializedAttr = 0;
}

def FA2GPU_PlanAttr : FA2GPU_Attr<"Plan", "plan"> {
  let summary = "what a kernel's block is made of: roles, who copies, where its tiles come from, slots of its rings";
  let description = [{
    `roles` run beside each other; without any, all warps do the same. Tiles are copied by the copy engine (`engine`), where a tensor map
    shows them, or by `threads` (cp.async). A block has one tile of the `grid`, or takes tiles from a `queue`. `rings` says the slots of the
    ring of each tensor that is loaded, and of `exchange`, which warps give each other, and `peer`, which another block gives.

    It stands on a kernel, as `fa2gpu.plan`, until roles have programs of their own. What is `open`, or left out, `fa2gpu-plan` decides.

    Example: `#fa2gpu.plan<roles = [#fa2gpu.role<"rows", 8 warps, 240 registers>, #fa2gpu.role<"copy", 4 warps, 24 registers>]>`,
    `#fa2gpu.plan<copies = threads, tiles = grid, rings = {k = 2, q = 1}>`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::fa2::gpu::RoleAttr">:$roles,
    DefaultValuedParameter<"::fa2::gpu::CopiedBy", "::fa2::gpu::CopiedBy::Open">:$copies,
    DefaultValuedParameter<"::fa2::gpu::TilesFrom", "::fa2::gpu::TilesFrom::Open">:$tiles,
    OptionalParameter<"::mlir::DictionaryAttr">:$rings);
  let assemblyFormat = "`<` struct(custom<Roles>($roles), $copies, $tiles, $rings) `>`";
  let extraClassDeclaration = [{
    bool hasRoles() const { return !getRoles().empty(); }
    /// The slots of a ring; 0 where the plan does not say.
    int64_t slotsOf(::llvm::StringRef ring) const;
    /// That of a name, or null.
    RoleAttr findRole(::llvm::StringRef name) const;
  }];
}

def FA2GPU_OrderAttr : FA2GPU_Attr<"Order", "order"> {
  let summary = "in which order a loop's products start";
  let description = [{
    Names of products (`fa2gpu.dot_start ... {name = "s"}`), a quote behind those of the tile before, then a plus behind those
    whose sums are added to memory as soon as they have been waited for, and how many products may be in flight. Names in brackets, before all others (`(dp) dk' s dp dv`), are of products whose accumulators begin with values that are written before any product
    starts; else they are written just before their own does, when fewer registers may be taken. It stands on a loop, as `fa2gpu.order`, until `fa2gpu-order-loop` has put the loop into that order.

    1. At least two products, each named once; at least one in flight. What is in brackets is a product of this tile.

    Example: `#fa2gpu.order<"s o'", 2 in flight>`.
  }];
  let parameters = (ins StringRefParameter<>:$products, "int64_t":$inFlight);
  let assemblyFormat = "`<` $products `,` $inFlight `in` `flight` `>`";
  let genVerifyDecl = 1;
}

def FA2GPU_ParamAttr : FA2GPU_Attr<"Param", "param"> {
  let summary = "what a launcher puts into one kernel parameter";
  let description = [{
    `kind` is "pointer", "stride" (of dimension `dim`, in elements), "i32" or "i64" (the
    expression `of`), "scalar", "workspace" (of the region `of`: a workspace argument's, or `tile_counters`, from which
    persistent blocks draw, and whose number is `dim`), or "tensor_map" of a tensor whose box is `dim` rows of 128 bytes of
    each of `heads` heads, as in docs/manifest.md; `dims` are the numbers of the tensor's batch, row, head and column
    dimensions, as in `fa2.view`.

    Example: `#fa2gpu.param<"stride", "q", 1>`.
  }];
  let parameters = (ins StringRefParameter<>:$kind, StringRefParameter<>:$of,
    DefaultValuedParameter<"int64_t", "0">:$dim, DefaultValuedParameter<"int64_t", "1">:$heads,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$dims);
  let assemblyFormat = "`<` $kind `,` $of (`,` $dim^)? (`heads` $heads^)? (`dims` $dims^)? `>`";
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$kind, "::llvm::StringRef":$of, "int64_t":$dim, "int64_t":$heads),
    [{ return $_get($_ctxt, kind, of, dim, heads, ::mlir::DenseI64ArrayAttr()); }]>];
}

#endif

//===- Passes.td - passes on laid-out tiles ----------------*- tablegen -*-===//
#ifndef FA2_GPUTRANSFORMS_PASSES_TD
#define FA2_GPUTRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormRings : Pass<"fa2gpu-form-rings", "::fa2::KernelOp"> {
  let summary = "loads become uses of rings in shared memory; nothing moves";
  let description = [{
    A load in a loop over tiles takes a ring of as many slots as the schedule says; any other load, and the tile to be stored, a
    ring of one slot. Each load becomes acquire, copy, commit, wait, and a release after its last use; loops carry the rings'
    cursors. Targets with roles copy through tensor maps, or by the role's threads (cp.async)
    where a load says so or no tensor map shows the view; their rings count uses through the whole life of a block, others
    from 0 in each loop over tiles. Who loads or shares a tile fills its ring, and every role that reads the tile waits for it.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def GiveTurns : Pass<"fa2gpu-give-turns", "::fa2::KernelOp"> {
  let summary = "turns at a sum are looked for, and passed on, by roles of their own";
  let description = [{
    What is asked of memory is answered behind the reductions that were sent before, so a role that adds to a sum in turns
    (`fa2.accumulate`) would wait a long time for each. Where the plan has the roles `looks` and `passes`, of a warp each, the
    first waits for the turns (`fa2gpu.await_turn`) some tiles ahead and says so in a ring, and the second hears by another what has been added, and
    passes the turn on behind a fence (`fa2gpu.change_turn`). Who adds waits in shared memory alone. Where several roles add some columns each, in one turn,
    each of them says so in a ring of its own. Only where each tile has a turn of its own.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::arith::ArithDialect"];
}

def Plan : Pass<"fa2gpu-plan", "::fa2::KernelOp"> {
  let summary = "what a kernel's block is made of is written down";
  let description = [{
    A kernel gets a plan (`#fa2gpu.plan`) from its schedule and its target: a role that multiplies and one that copies, where the target has
    warps for it and the kernel multiplies; who copies; where tiles come from; the slots of each ring. Products that the schedule gives to
    another role learn which. What a plan that is written down says stays. The passes behind ask the plan alone.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def Persist : Pass<"fa2gpu-persist", "::fa2::KernelOp"> {
  let summary = "blocks take one tile after another";
  let description = [{
    `fa2.for_each_tile` becomes `fa2gpu.tile_loop`, which carries the cursors of rings from tile to tile. Only where the plan says `tiles = queue`.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::arith::ArithDialect"];
}

def AssignRoles : Pass<"fa2gpu-assign-roles", "::fa2::KernelOp"> {
  let summary = "every operation on tiles is part of a role";
  let description = [{
    Operations on tiles
    that name no role (`fa2gpu.role`) take that of the tiles in registers that they read, or else that of the
    operations which read theirs, or else the plan's first; loads its last. A tile in registers belongs to one role: others
    get it through shared memory (`fa2gpu.share`). Arithmetic on numbers is everyone's. Nothing for plans without roles.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def SpecializeWarps : Pass<"fa2gpu-specialize-warps", "::fa2::KernelOp"> {
  let summary = "each role of the plan has a program of its own";
  let description = [{
    The loop over tiles is cloned into a region a role, which keeps the operations of that role
    (`fa2gpu-assign-roles`) with the arithmetic they need. A role that only copies runs ahead: it
    draws the tiles of persistent blocks. Nothing for kernels without a plan.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::arith::ArithDialect"];
}

def ChooseOrder : Pass<"fa2gpu-choose-order", "::fa2::KernelOp"> {
  let summary = "in which order a loop's products start, by the schedule's table or by a search";
  let description = [{
    Writes `fa2gpu.order` on loops with two asynchronous products or more. The schedule's `loop_order`, or `overlap`, stands for a list of
    names of products (`fa2.dot ... {name = "s"}`), a quote behind those that are a tile behind the others. With `loop_order = derived`
    the list is found by modulo scheduling of the loop's operations: the tensor cores run products one after the other, a warp's threads do
    one thing after the other, and no schedule that fits the role's registers has a shorter iteration.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def OrderLoop : Pass<"fa2gpu-order-loop", "::fa2::KernelOp"> {
  let summary = "starts a loop's products in the order that it names, some of them a tile behind";
  let description = [{
    The products of a loop's `fa2gpu.order` start in that order, each as soon as what it needs has been computed; matmuls are waited for where something needs them, else at the end, and
    slots are released as soon as their readers are done. Only asynchronous matmuls gain by it. An order may say that products go
    a tile behind the others: the loop is then rotated, and its range must have a tile always. So forward's loop starts
    S(j+1) = Q K(j+1)^T and O += P(j) V(j), and takes the softmax of S(j+1) while P V is in flight. What a matmul in flight reads in
    registers is read by nobody else, and written again when it is complete. The order is checked before the loop is changed: against what
    each step waits for, and against the role's registers. A time line of it is a remark of the category fa2gpu-order-loop.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def CopyAhead : Pass<"fa2gpu-copy-ahead", "::fa2::KernelOp"> {
  let summary = "a role that does more than copy starts its copies, or its reads, some tiles ahead";
  let description = [{
    A role that only copies runs ahead of the others by itself. In the loops of one that also multiplies, copies are those
    of the tile that is as many places further on as the rings have slots beside the one that is read. The loop is cut in
    three: the first copies alone, both, and the last tiles' work alone.

    A role that computes vectors for others of what it reads of memory reads a tile ahead: its loop is rotated, and what it gives does not
    wait for the next reads.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def JoinLoops : Pass<"fa2gpu-join-loops", "::fa2::KernelOp"> {
  let summary = "the last tiles' work, which no copies are ahead of, joins the loop before it";
  let description = [{
    Of two loops in a row, the second of which goes on where the first stops and does what is the end of the first's body, one
    is left: what the first did besides stands in a branch. `fa2gpu-copy-ahead` makes such loops. The work stands once then, and
    is compiled once; behind `fa2gpu-verify`, which counts the uses of rings in loops without branches. Only where the schedule says
    `join_loops`, or `turns_finish`, whose work is long: for others the branch costs up to 1.4 percent.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def GroupLimits : Pass<"fa2gpu-group-limits", "::fa2::KernelOp"> {
  let summary = "each warpgroup takes the tiles that its own rows see, or that see its own keys";
  let description = [{
    A consumer warpgroup's range of key tiles is that of its 64 rows: under a causal mask up to its own diagonal, and
    none where all of them lie past the sequence's end. In backward its range of query tiles is that of its 64 keys: under a causal
    mask from its own diagonal on, or where queries fall up to it. The block's range is cut in two (`fa2.take_tiles`, `fa2.drop_tiles`), or three where
    it may fall or rise (`fa2.tiles_through`): tiles that the
    warpgroup has nothing to do with are only waited for and released, and what it fills for another role gets zeros. Only
    where the schedule says `group_limits`.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::arith::ArithDialect"];
}

def CountTiles : Pass<"fa2gpu-count-tiles", "::fa2::KernelOp"> {
  let summary = "loops over tiles become loops over places";
  let description = [{
    `fa2.for_tiles` becomes `scf.for` over the places of its range; the body asks for the tile there (`fa2.tile_at`). From
    here on a loop can be rotated: the tile so many iterations ahead is the one so many places further on.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def ExpandRanges : Pass<"fa2gpu-expand-ranges", "::fa2::KernelOp"> {
  let summary = "ranges of tiles become arithmetic";
  let description = [{
    Each range becomes the numbers of `fa2.kv_range` and `fa2.q_range`, where it stands; what is asked of it follows
    from those.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def NumberUses : Pass<"fa2gpu-number-uses", "::fa2::KernelOp"> {
  let summary = "cursors that follow loops' counters are no longer carried";
  let description = [{
    Where a loop's iterations each take one use of a ring, its number is that before the loop plus the counter. Cursors that
    a persistent block carries alike become one. What goes on by other numbers stays carried.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SpeculateMax : Pass<"fa2gpu-speculate-max", "::fa2::KernelOp"> {
  let summary = "exponentials with the old maximum; a new one where sums grew large";
  let description = [{
    In loops without a mask, `fa2.softmax_step` becomes `fa2gpu.softmax_speculate`, which needs no maximum before its
    exponentials and none after them. Where a lane's sum of a row passes 2^`speculate_max`, a cold arm gives the row a new
    reference, from that sum, and scales by it what was computed with the old one: probabilities, sum and output. No score
    is needed for that. Only where a sum has overflowed (2^100) are they computed again, from shared memory, by the family
    of matmuls that one warp issues and whose fragments are the same. The keys' slot is released after both.

    Each row decides for itself, so that its bits depend on nothing beside it.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect"];
}

def PingPong : Pass<"fa2gpu-ping-pong", "::fa2::KernelOp"> {
  let summary = "warpgroups take turns at starting the loop's matmuls";
  let description = [{
    In loops, `fa2gpu.turn_wait` stands before the first matmul started and `fa2gpu.turn_pass` after
    the last of those that start one behind the other, before threads compute with the result of any. Tiles that a warpgroup skips (`fa2gpu-group-limits`) are turns too, so that each takes as many. Only
    where the schedule says `ping_pong`.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def PlaceDotWaits : Pass<"fa2gpu-place-dot-waits", "::fa2::KernelOp"> {
  let summary = "waits for matmuls: how many may stay in flight, and where ptxas cannot move them";
  let description = [{
    Counts the matmuls started after each one that is waited for. Before a wait whose
    accumulator is then rescaled lazily stands a branch on whether any row needs it, which
    holds the wait behind the softmax: the assembler moves a wait up through what does not depend
    on it, but not across another wait. All warps of a warpgroup come to the one wait, as PTX asks;
    each then rescales or not. Operands in registers are kept until the wait. Where what a matmul's accumulator begins with is
    written while others are in flight, `fa2gpu.dot_fence` stands before it, unless a wait does. Only for families whose matmuls are asynchronous.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect"];
}

def ShareAccumulators : Pass<"fa2gpu-share-accumulators", "::fa2::KernelOp"> {
  let summary = "the pieces of one product take turns in one set of registers";
  let description = [{
    A product that is multiplied piece by piece, as backward's dQ is where few registers are left for it, needs the
    registers of one piece: nothing reads a piece's values once they are added to a sum. ptxas does not see that; it multiplies
    the next piece into other registers, runs out of them and serialises the matmuls (C7512). So where a piece of the same name and type
    stands before in the block, with all its uses, the next one names it as its accumulator and clears it. Only for
    families whose matmuls are asynchronous.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def ChangeTurns : Pass<"fa2gpu-change-turns", "::fa2::KernelOp"> {
  let summary = "a turn at a sum is passed on behind the next tile's product";
  let description = [{
    A block that adds to a sum in its turn (`fa2.accumulate`) has a fence behind its last addition, which waits until all of
    them are in memory, and a look at the counter before its first, whose answer takes as long. With `turns = late`, or `change` of
    an addition, the fence stands between the start of the product that is added next, or that what is added is computed of, and its wait, as `fa2gpu.change_turn`, and with `late_seen` the look does too: the tensor
    cores multiply meanwhile. Which turn is past is carried from tile to tile, and through loops; behind the last of them it is passed on at once.
    The next block comes to its turn a product later. What additions alone need (whose turn it is, which tile is the first of one) is computed
    behind the start of the product too, where nobody waits for it.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def InsertFences : Pass<"fa2gpu-insert-fences", "::fa2::KernelOp"> {
  let summary = "orders shared memory between threads and the copy engine";
  let description = [{
    The rule: what threads wrote is fenced and met at the warpgroup's barrier before a
    tensor_store reads it; before threads write what a tensor_store or another warp of the
    group may still read, the stores are waited for and the group meets. A role that stores once a block waits for all of its
    stores at its end, where it releases their slots too.
    What lanes read of a slot that the copy engine fills, the thread that copies fences before it fills it again, after the
    readers' warps have met. What the threads of a role copy for others (cp.async) has come before they say so: such a role has
    nothing else to do meanwhile.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def ShareBarriers : Pass<"fa2gpu-share-barriers", "::fa2::KernelOp"> {
  let summary = "waits that another wait implies cost nothing";
  let description = [{
    Backward copies with each tile of queries a value a row, into a ring of its own. To wait at one more mbarrier costs a warp
    tens of cycles even where its phase is over. So a ring of vectors shares the mbarriers of the tile that is copied before, where
    each of its uses lies within one of the tile's: the slot is acquired behind the tile's, waited for behind the tile's and released while the tile's
    use is held. Then the tile's mbarrier counts the bytes of both, and waits and releases of the vector cost nothing.
    A vector that threads of another role write arrives with a tile too, that its readers wait for first: its warps are counted beside the
    tile's copy.

    And a role that reads a tile only in products with what another role made of it, as backward's producer reads
    keys in those with dS, need not wait for the tile itself, since the other role has: its wait is `implied`. So the producer's
    next copies do not stand behind the arrival of its first.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def PipelineLoop : Pass<"fa2gpu-pipeline", "::fa2::KernelOp"> {
  let summary = "moves copies ahead of their use, and scores ahead of the softmax";
  let description = [{
    With s >= 2 slots, the copies of iteration i + s - 1 are issued in iteration i, right
    after its waits. With one stage, the keys of iteration i + 1 are copied once those of
    iteration i were read, the values of iteration i while its scores are computed
    (FlashAttention-2's order). Copies past the last iteration are predicated off.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def SplitMaskedTiles : Pass<"fa2gpu-split-masked-tiles", "::fa2::KernelOp"> {
  let summary = "splits the kv loop's iterations into masked and full ones";
  let description = [{
    Index-set splitting: the loop over the places of a range becomes consecutive loops over those
    before the full tiles, the full tiles (`fa2.full_places`), and those after; the state crosses from
    one to the next. Where a tile is full its mask is gone, its softmax need not
    expect empty rows, and copies that cannot be the sequence's last tile carry no bound.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def PlaceWaits : Pass<"fa2gpu-place-waits", "::fa2::KernelOp"> {
  let summary = "acquire, wait and release become copy groups and barriers";
  let description = [{
    Executes the program abstractly and counts the copy groups in flight. A ring.wait
    whose result is used while its group may be open, or has not been seen by a barrier,
    becomes a wait for the groups newer than its own and a barrier; an acquire gets a
    barrier when none stands since the release of the use it overwrites. What the others
    imply is left out, and copies that no wait tells apart are one group.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def Allocate : Pass<"fa2gpu-allocate", "::fa2::KernelOp"> {
  let summary = "gives every ring its place in shared memory";
  let description = [{
    Rings whose lives do not meet share bytes; a barrier then stands before the first
    write of the later one. Fails when the total exceeds what the target allows a block.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def ChainKernels : Pass<"fa2gpu-chain-kernels", "::mlir::ModuleOp"> {
  let summary = "a kernel may start while the one before it ends";
  let description = [{
    Where a kernel's schedule says that the next one may start before its end (`chained`), it gets a `fa2gpu.chain_pass`, and
    the next one a `fa2gpu.chain_wait`: in each role before the operation of its outermost program that first
    touches an argument which a kernel before writes, or writes one that a kernel before reads; copies of inputs that stand before go ahead. A
    kernel that touches none waits at its end, so that the one behind it waits for all. Kernels of another `alternative` of `fa2.kernel` begin
    a chain of their own.

    Two kernels that share the rows of a launch (`parts` of `fa2.kernel`) are chained so too, where the target overlaps kernels: the second one's
    blocks take the places of the first one's as they end. It waits in each tile, before it stores.

    What an operation reads and writes, its operands' memory effects say; what they do not say counts as both.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def Verify : Pass<"fa2gpu-verify", "::fa2::KernelOp"> {
  let summary = "proves that rings, matmuls and budgets keep their rules";
  let description = [{
    Changes nothing; fails with the first rule that is broken, at the operation that breaks it.
    What it says holds for all lengths and any number of iterations.

    - Rings between roles: uses are taken one after the other, as many in one role as in the
      other, and each is committed or released exactly once on every path. Every reader holds its use.
    - Matmuls: none is in flight when its result is read, its slot released or written. All warps of a
      warpgroup come to the same start and the same wait.
    - Turns: each warpgroup takes as many, and none waits in its turn for a slot that another
      one releases in a later turn.
    - Copy groups (no roles): what is read was written on every path, its group waited for, and
      a barrier followed; what is overwritten is read no more.
    - The copy engine, and matmuls that read shared memory by themselves: threads' writes are fenced and
      met before they read; they have read before threads write. A warpgroup that meets alone sees and
      overwrites rows of its own.
    - Budgets: registers of the roles, shared memory, named barriers.

    Stands behind `fa2gpu-allocate`.
  }];
}

#endif

//===- FA2Ops.td - attention on tensors --------------------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2_FA2OPS_TD
#define FA2_DIALECT_FA2_FA2OPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "fa2/Dialect/FA2/FA2Attrs.td"
include "fa2/Dialect/FA2/FA2Types.td"

class FA2_Op<string mnemonic, list<Trait> traits = []> : Op<FA2_Dialect, mnemonic, traits>;

def FA2_AttentionOp : FA2_Op<"attention", [Pure, AttrSizedOperandSegments,
    SingleBlock, NoTerminator]> {
  let summary = "scaled dot-product attention on tensors";
  let description = [{
    For each batch entry b and head h, with g = heads / heads_kv,

    ```
    S   = scale * q[b, :, h, :] k[b, :, h / g, :]^T      (f32)
    S   = score(S)                                       (where a region is given)
    P   = exp(S - lse),  lse = log(sum over visible keys of exp(S))
    out = P v[b, :, h / g, :]
    ```

    q is [batch, seqlen_q, heads, d], k is [batch, seqlen_k, heads_kv, d], v is
    [batch, seqlen_k, heads_kv, d_v], out is [batch, seqlen_q, heads, d_v], all of one
    16-bit float type; lse is f32 [batch, heads, seqlen_q], natural log. A row that
    sees no key, or only scores of -inf, gives out = 0 and lse = -inf. Accumulation and softmax are in f32;
    P is rounded to the input type before the second product.

    `scale` is f32, positive and finite; without it, it is 1 / sqrt(d). `extras` are
    what the score region reads besides its score and coordinates: its block
    takes (score: f32, batch, head, row, column: index, extras...) and ends in
    `fa2.yield` of the new score. They are scalars, and tensors that it reads one element at a
    time with `tensor.extract`; `extra_names` are their names as arguments of the kernel
    (extra0, extra1, ... where it is missing). `fa2-tile` takes programs of elementwise
    operations on f32, index and integers, with reads at the batch entry, head, row and column.

    `sink`, f32 [heads], is one more score of each row of its head, which has no value: it takes part in the
    sum of lse = log(exp(sink) + sum over visible keys of exp(S)). A row that sees no key has out = 0, lse = sink.

    `dropout`, f32, is the probability p by which elements of P are 0 where they meet v, while the others are divided by
    1 - p; lse is that of all. p counts in 256ths, T / 256 with T the nearest integer to 256 p, at most 255. `rng` are two 64-bit numbers, seed and
    offset, each as two words, the lower one first. Element (i, j) of batch entry b and head h is kept where its byte is at least T: byte
    4 (i mod 32 / 8) + j mod 32 / 8 of the 16 that Philox4x32-7 gives for the key (seed's lower word, seed's higher word xor offset's higher word) and the
    counter (i / 32 * 8 + i mod 8, j / 32 * 8 + j mod 8, b heads + h, offset's lower word).

    `variants` are schedules for launches where a guard holds, the first that holds;
    `schedule` is for all others. Each becomes a kernel of its own.

    1. q, k, v and out have one element type, bf16 or f16.
    2. They have rank 4; d and d_v are static, d is that of k. Batch, length and heads are `?`: a launch gives them.
    3. lse is f32 of rank 3, all `?`.
    4. d and d_v are multiples of 8 from 8 to 256.
    5. The score region, where present, has the block arguments above; extras have as many names, each of its own.
    6. Variants stand beside a schedule and have its target; there are at most 8. One whose guard reads `batch` is of
       one class of bits with those after it and the schedule (`#fa2.variant`).
    7. sink is f32 of rank 1, `?`.
    8. rng, beside dropout, is tensor<4xi32>.

    Example:

    ```mlir
    func.func @attention(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                         %v: tensor<?x?x?x128xbf16>, %c: f32)
        -> (tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>) {
      %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c) {mask = #fa2.mask<causal>}
          : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
          -> tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
      return %o, %lse : tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>
    }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
    Optional<F32>:$scale, Optional<AnyRankedTensor>:$sink, Optional<F32>:$dropout, Optional<AnyRankedTensor>:$rng,
    Variadic<AnyType>:$extras, OptionalAttr<StrArrayAttr>:$extra_names,
    OptionalAttr<FA2_IntervalMask>:$mask, OptionalAttr<FA2_ScheduleAttr>:$schedule,
    OptionalAttr<TypedArrayAttrBase<FA2_VariantAttr, "variants">>:$variants);
  let results = (outs AnyRankedTensor:$out, AnyRankedTensor:$lse);
  let regions = (region AnyRegion:$score);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `)` (`scale` `(` $scale^ `)`)? (`sink` `(` $sink^ `:` type($sink) `)`)?
    (`dropout` `(` $dropout^ `,` $rng `:` type($rng) `)`)?
    (`extras` `(` $extras^ `:` type($extras) `)`)? attr-dict
    `:` type($q) `,` type($k) `,` type($v) `->` type($out) `,` type($lse)
    (`score` $score^)?
  }];
  let hasVerifier = 1;
}

def FA2_AttentionGradOp : FA2_Op<"attention_grad", [Pure, AttrSizedOperandSegments, AttrSizedResultSegments,
    SingleBlock, NoTerminator]> {
  let summary = "the gradients of scaled dot-product attention on tensors";
  let description = [{
    What `fa2.attention` computed from q, k, v with the same scale and mask is given
    as out and lse, and with it dout, the gradient of out. For each batch entry b and
    head h, with g = heads / heads_kv,

    ```
    S  = scale * q k^T,  P = exp(S - lse)
    dv = P^T dout                                  (summed over the g heads of a group)
    dP = dout v^T
    dS = P o (dP - delta),  delta = rowsum(dout o out)
    dq = scale * dS k
    dk = scale * dS^T q                            (summed over the g heads of a group)
    ```

    With a score program, P = exp(score(S) - lse) and dS = P o (dP - delta) o score'(S): the region is that of
    `fa2.attention`, but ends in `fa2.yield` of the new score and its derivative by the score that went in.
    Where P is 0, dS is 0, whatever the derivative is there. The gradient of an extra in `grads` is the sum of what
    `fa2.contribute` says of it, times P o (dP - delta); a dimension of extent 1 that stands for all is summed over.

    `dlse` is the gradient of lse, where lse has one: dS = P o (dP - delta + dlse) then. lse holds the `sink`
    of the forward operation, so that P does; its gradient is, over all batch entries and rows,

    ```
    dsink[h] = - sum exp(sink[h] - lse) (delta - dlse)
    ```

    With `dropout` and `rng` as attention's, K the elements that are kept: dv = (K o P / (1 - p))^T dout, dS = P o (K o dP / (1 - p) - delta + dlse).

    A row whose lse is -inf sees no key: its P is 0, and so is all that follows.
    Accumulation and softmax are in f32; P and dS are rounded to the input type before
    the products they enter.

    `variants` are schedules for launches where a guard holds, as attention's are: of the kernel whose key tiles stay, and
    of those around it where they see a field that differs (tiles of queries, warps, preload, and how dQ is summed).

    1. q, k, v, out and dout have one element type, bf16 or f16.
    2. They have rank 4; d and d_v are static, d is that of k, d_v that of out and dout. Batch, length and heads are `?`.
    3. lse and dlse are f32 of rank 3, all `?`.
    4. d and d_v are multiples of 8 from 8 to 256.
    5. dq, dk and dv have the types of q, k and v.
    6. The score region, where present, is as attention's constraint 5 says, and yields two f32.
    7. `grads` are numbers of extras of floats, each once, in order, with one result of f32 each: of the extra's shape, [1] of a
       scalar. Their names as arguments, d and the extra's, are free. Of an extra of 16 bits with a place of its own for each score
       the result may be of the extra's type. Then the program adds the extra to the score, and no extent of the result is 1 where the
       score's is not; or the result's type has extents of 1, of entries of the batch or heads, and it is summed over those.
    8. sink is as attention's constraint 7 says; dsink, which may be left out, has its type. rng is as its constraint 8 says.
    9. Variants are as attention's constraint 6 says, for all rows, and sum dQ in order if the schedule does.

    Example:

    ```mlir
    func.func @gradients(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                         %o: tensor<?x?x?x64xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x64xbf16>, %c: f32)
        -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
      %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do) scale(%c) {mask = #fa2.mask<causal>}
          : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
            tensor<?x?x?xf32>, tensor<?x?x?x64xbf16>
          -> tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      return %dq, %dk, %dv : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
    }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
    AnyRankedTensor:$out, AnyRankedTensor:$lse, AnyRankedTensor:$dout, Optional<AnyRankedTensor>:$dlse, Optional<F32>:$scale,
    Optional<AnyRankedTensor>:$sink, Optional<F32>:$dropout, Optional<AnyRankedTensor>:$rng, Variadic<AnyType>:$extras, OptionalAttr<StrArrayAttr>:$extra_names,
    OptionalAttr<DenseI64ArrayAttr>:$grads,
    OptionalAttr<FA2_IntervalMask>:$mask, OptionalAttr<FA2_ScheduleAttr>:$schedule,
    OptionalAttr<FA2_ScheduleAttr>:$dq_schedule,
    OptionalAttr<TypedArrayAttrBase<FA2_VariantAttr, "variants">>:$variants);
  let results = (outs AnyRankedTensor:$dq, AnyRankedTensor:$dk, AnyRankedTensor:$dv,
    Variadic<AnyRankedTensor>:$dextras, Optional<AnyRankedTensor>:$dsink);
  let regions = (region AnyRegion:$score);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $out `,` $lse `,` $dout `)` (`dlse` `(` $dlse^ `:` type($dlse) `)`)? (`scale` `(` $scale^ `)`)?
    (`sink` `(` $sink^ `:` type($sink) `)`)? (`dropout` `(` $dropout^ `,` $rng `:` type($rng) `)`)?
    (`extras` `(` $extras^ `:` type($extras) `)`)? attr-dict
    `:` type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse) `,` type($dout)
    `->` type($dq) `,` type($dk) `,` type($dv) (`,` type($dextras)^)? (`sink` type($dsink)^)?
    (`score` $score^)?
  }];
  let hasVerifier = 1;
}

def FA2_ContributeOp : FA2_Op<"contribute", [MemoryEffects<[MemWrite]>, HasParent<"AttentionGradOp">]> {
  let summary = "a part of the gradient of what a score program reads";
  let description = [{
    `slope` is the new score's derivative by the element of `extra` at `indices` (none of a scalar), as it
    was read there once.

    Example: `fa2.contribute %slope to %bias[%head, %column] : tensor<?x?xbf16>`
  }];
  let arguments = (ins F32:$slope, AnyType:$extra, Variadic<Index>:$indices);
  let assemblyFormat = "$slope `to` $extra `[` $indices `]` attr-dict `:` type($extra)";
}

def FA2_YieldOp : FA2_Op<"yield", [Pure, Terminator,
    ParentOneOf<["AttentionOp", "AttentionGradOp", "ForEachTileOp", "ForTilesOp"]>]> {
  let summary = "ends a region of a score program or the body of a loop over tiles";
  let description = "Example: see `fa2.for_each_tile`.";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif

// RUN: fa2-opt %s --split-input-file --verify-diagnostics --fa2-tile-grad

// Each of two warpgroups holds 64 of a piece's 96 columns: dQ's sum has the next piece where the padding would lie.
func.func @padded_piece(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %o: tensor<?x?x?x128xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x128xbf16>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>) {
  // expected-error @+1 {{'fa2.attention_grad' op expected dq_columns / 2 to be 16, 32 or a multiple of 64, or dq_columns to be at least 128, the head dim, because 2 warpgroups split each piece of dQ's columns and the next one lies right behind it; got dq_columns = 96; the nearest is 64}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do)
      {schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 8, stages = 1, partition = keys, key_warps = 4, dq_columns = 96>}
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
}

// -----

func.func @between_panels(%q: tensor<?x?x?x192xbf16>, %k: tensor<?x?x?x192xbf16>, %v: tensor<?x?x?x192xbf16>, %o: tensor<?x?x?x192xbf16>, %lse: tensor<?x?x?xf32>, %do: tensor<?x?x?x192xbf16>)
    -> (tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>) {
  // expected-error @+1 {{'fa2.attention_grad' op expected dq_columns to be 32, a multiple of 64 or at least 160, because a piece of dQ's columns begins with a panel of 64, or has the half of one; got 96; the nearest is 64}}
  %dq, %dk, %dv = fa2.attention_grad ins(%q, %k, %v, %o, %lse, %do)
      {schedule = #fa2.schedule<target = "sm_90a", block_q = 64, block_kv = 64, warps = 4, stages = 1, partition = keys, key_warps = 4, dq_columns = 96>}
      : tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?xf32>, tensor<?x?x?x192xbf16>
      -> tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>
  return %dq, %dk, %dv : tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>, tensor<?x?x?x192xbf16>
}

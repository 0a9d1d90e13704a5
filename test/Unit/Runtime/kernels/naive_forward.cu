// A forward kernel as plain as can be, for tests of the runtime and fa2-run:
// one thread a row, head dim 16, values of 8, bf16, causal (bottom right). The
// PTX beside it is this file's, with a manifest written by hand in front:
//   nvcc -arch=sm_80 -ptx -use_fast_math --prec-div=true naive_forward.cu
// and .version set to 7.0, which has all that it uses.
#include <stdint.h>
__device__ static float bf(const unsigned short *p) {
  return __uint_as_float((uint32_t)*p << 16);
}
__device__ static unsigned short rn(float x) {
  uint32_t b = __float_as_uint(x);
  return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
extern "C" __global__ void naive_forward(
    const unsigned short *q, const unsigned short *k, const unsigned short *v,
    unsigned short *out, float *lse, long long qb, long long qs, long long qh,
    long long kb, long long ks, long long kh, long long vb, long long vs,
    long long vh, long long ob, long long os, long long oh, long long lb,
    long long lh, int seqlen_q, int seqlen_k, int group, float scale) {
  int row = blockIdx.x * 32 + threadIdx.x;
  if (row >= seqlen_q)
    return;
  int h = blockIdx.y, b = blockIdx.z, hk = h / group;
  const unsigned short *qr = q + b * qb + row * qs + h * qh;
  int keys = min(row + seqlen_k - seqlen_q + 1, seqlen_k);
  float m = -INFINITY, l = 0, acc[8] = {};
  float c = scale * 1.4426950408889634f;
  for (int j = 0; j < keys; ++j) {
    const unsigned short *kr = k + b * kb + j * ks + hk * kh,
                         *vr = v + b * vb + j * vs + hk * vh;
    float s = 0;
    for (int d = 0; d < 16; ++d)
      s += bf(qr + d) * bf(kr + d);
    float n = fmaxf(m, s), a = exp2f(c * (m - n)), p = exp2f(c * (s - n));
    l = l * a + p;
    m = n;
    for (int d = 0; d < 8; ++d)
      acc[d] = acc[d] * a + p * bf(vr + d);
  }
  unsigned short *o = out + b * ob + row * os + h * oh;
  for (int d = 0; d < 8; ++d)
    o[d] = rn(keys > 0 ? acc[d] / l : 0.0f);
  lse[b * lb + h * lh + row] = keys > 0 ? scale * m + logf(l) : -INFINITY;
}

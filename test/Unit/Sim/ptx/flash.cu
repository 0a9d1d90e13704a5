// A compact forward attention kernel, test input of the simulator: 64 query
// rows by four warps, 32 keys a step, cp.async double buffer, head dim 64. nvcc
// -arch=sm_80 -ptx flash.cu
#include <cuda_bf16.h>
#include <stdint.h>
__device__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}
template <int D>
__device__ void body(const __nv_bfloat16 *Q, const __nv_bfloat16 *K,
                     const __nv_bfloat16 *V, __nv_bfloat16 *O, float *L, int S,
                     int H, long sb, long sh, long ss, float scale) {
  extern __shared__ __align__(1024) uint8_t sm[];
  constexpr int BM = 64, BN = 32, RB = D * 2; // row bytes
  int t = threadIdx.x, w = t / 32, l = t % 32;
  int b = blockIdx.y / H, h = blockIdx.y % H;
  int q0 = blockIdx.x * BM;
  const __nv_bfloat16 *q = Q + b * sb + h * sh, *k = K + b * sb + h * sh,
                      *v = V + b * sb + h * sh;
  __nv_bfloat16 *o = O + b * sb + h * sh;
  uint32_t base = __cvta_generic_to_shared(sm);
  auto off = [&](int r, int c) {
    return r * RB + ((c * 16) ^ ((r & 7) * 16));
  }; // c = 16B chunk
  auto load = [&](const __nv_bfloat16 *g, int r0, uint32_t s, int rows) {
    for (int i = t; i < rows * (D / 8); i += 128) {
      int r = i / (D / 8), c = i % (D / 8);
      int row = r0 + r;
      int n = row < S ? 16 : 0;
      const void *p = g + (long)(row < S ? row : 0) * ss + c * 8;
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s + off(r, c)),
          "l"(p), "r"(n));
    }
  };
  uint32_t sQ = base, sK = base + BM * RB, sV = sK + 2 * BN * RB;
  int nb = (S + BN - 1) / BN;
  load(q, q0, sQ, BM);
  load(k, 0, sK, BN);
  asm volatile("cp.async.commit_group;");
  load(v, 0, sV, BN);
  asm volatile("cp.async.commit_group;");
  float oacc[D / 8][4];
  for (int i = 0; i < D / 8; i++)
    for (int j = 0; j < 4; j++)
      oacc[i][j] = 0;
  float m[2] = {-INFINITY, -INFINITY}, ls[2] = {0, 0};
  uint32_t qf[D / 16][4];
  for (int j = 0; j < nb; j++) {
    uint32_t kS = sK + (j & 1) * BN * RB, vS = sV + (j & 1) * BN * RB;
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    if (j == 0) {
      for (int x = 0; x < D / 16; x++) {
        int r = w * 16 + (l % 16), c = x * 2 + l / 16;
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
            : "=r"(qf[x][0]), "=r"(qf[x][1]), "=r"(qf[x][2]), "=r"(qf[x][3])
            : "r"(sQ + off(r, c)));
      }
    }
    if (j + 1 < nb)
      load(k, (j + 1) * BN, sK + ((j + 1) & 1) * BN * RB, BN);
    asm volatile("cp.async.commit_group;");
    float s[BN / 8][4];
    for (int i = 0; i < BN / 8; i++)
      for (int x = 0; x < 4; x++)
        s[i][x] = 0;
#pragma unroll
    for (int x = 0; x < D / 16; x++)
#pragma unroll
      for (int n = 0; n < BN / 8; n += 2) {
        uint32_t bf[4];
        int r = n * 8 + (l % 8) + (l / 16) * 8, c = x * 2 + ((l / 8) & 1);
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
            : "=r"(bf[0]), "=r"(bf[1]), "=r"(bf[2]), "=r"(bf[3])
            : "r"(kS + off(r, c)));
        for (int y = 0; y < 2; y++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                       "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                       : "+f"(s[n + y][0]), "+f"(s[n + y][1]),
                         "+f"(s[n + y][2]), "+f"(s[n + y][3])
                       : "r"(qf[x][0]), "r"(qf[x][1]), "r"(qf[x][2]),
                         "r"(qf[x][3]), "r"(bf[2 * y]), "r"(bf[2 * y + 1]));
      }
    for (int n = 0; n < BN / 8; n++)
      for (int x = 0; x < 4; x++)
        if (j * BN + n * 8 + 2 * (l % 4) + (x & 1) >= S)
          s[n][x] = -INFINITY;
    float a[2];
    for (int r = 0; r < 2; r++) {
      float mx = m[r];
      for (int n = 0; n < BN / 8; n++)
        mx = fmaxf(mx, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 2));
      a[r] = ex2((m[r] - mx) * scale);
      m[r] = mx;
      float sum = 0;
      for (int n = 0; n < BN / 8; n++)
        for (int x = 0; x < 2; x++) {
          float p = ex2(fmaf(s[n][2 * r + x], scale, -mx * scale));
          s[n][2 * r + x] = p;
          sum += p;
        }
      ls[r] = ls[r] * a[r] + sum;
    }
    for (int i = 0; i < D / 8; i++)
      for (int x = 0; x < 4; x++)
        oacc[i][x] *= a[x / 2];
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    if (j + 1 < nb)
      load(v, (j + 1) * BN, sV + ((j + 1) & 1) * BN * RB, BN);
    asm volatile("cp.async.commit_group;");
#pragma unroll
    for (int x = 0; x < BN / 16; x++) {
      uint32_t pf[4];
      for (int y = 0; y < 4; y++) {
        __nv_bfloat162 z = __floats2bfloat162_rn(
            s[2 * x + y / 2][(y & 1) * 2], s[2 * x + y / 2][(y & 1) * 2 + 1]);
        pf[y] = *(uint32_t *)&z;
      }
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        uint32_t bf[4];
        int r = x * 16 + (l % 16), c = n + l / 16;
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
            : "=r"(bf[0]), "=r"(bf[1]), "=r"(bf[2]), "=r"(bf[3])
            : "r"(vS + off(r, c)));
        for (int y = 0; y < 2; y++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                       "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                       : "+f"(oacc[n + y][0]), "+f"(oacc[n + y][1]),
                         "+f"(oacc[n + y][2]), "+f"(oacc[n + y][3])
                       : "r"(pf[0]), "r"(pf[1]), "r"(pf[2]), "r"(pf[3]),
                         "r"(bf[2 * y]), "r"(bf[2 * y + 1]));
      }
    }
  }
  asm volatile("cp.async.wait_all;");
  for (int r = 0; r < 2; r++) {
    float x = ls[r];
    x += __shfl_xor_sync(~0u, x, 1);
    x += __shfl_xor_sync(~0u, x, 2);
    int row = q0 + w * 16 + l / 4 + 8 * r;
    float inv = 1.f / x;
    if (row < S) {
      for (int i = 0; i < D / 8; i++) {
        __nv_bfloat162 z = __floats2bfloat162_rn(oacc[i][2 * r] * inv,
                                                 oacc[i][2 * r + 1] * inv);
        *(uint32_t *)&o[(long)row * ss + i * 8 + 2 * (l % 4)] = *(uint32_t *)&z;
      }
      if (l % 4 == 0)
        L[(long)blockIdx.y * S + row] = (m[r] * scale + lg2(x)) * 0.69314718f;
    }
  }
}
extern "C" __global__ void __launch_bounds__(128)
    flash(const __nv_bfloat16 *Q, const __nv_bfloat16 *K,
          const __nv_bfloat16 *V, __nv_bfloat16 *O, float *L, int S, int H,
          long sb, long sh, long ss, float scale) {
  body<64>(Q, K, V, O, L, S, H, sb, sh, ss, scale);
}

/* launch.c - runs a kernel of fa2 with the CUDA driver and its manifest alone: no fa2 library, no CUDA toolkit;
 * docs/manifest.md says all that is needed. Needs cJSON (Debian: libcjson-dev) and, to run, a driver.
 *   launch attn.ptx batch=2 heads=8 heads_kv=8 seqlen_q=1000 seqlen_k=1000
 * Tensors are packed. v is 1 everywhere and the other inputs are random, so the rows of `out` that see a key must be
 * 1, and the others 0. Clusters are refused: they need another driver function. */
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long long i64;
typedef unsigned u;
#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* CU(cuInit, (unsigned), 0) calls a driver function, or ends with its error. */
#define CU(name, types, ...) check(((int(*) types)symbol(#name))(__VA_ARGS__), #name)
static void *symbol(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
  if (!found) DIE("no CUDA driver: %s", dlerror());
  return found;
}
static void check(int error, const char *name) {
  if (error) DIE("%s: CUDA error %d", name, error);
}

/* What expressions may name: dimensions, strides, integer scalars, the device; "&q" is q's address. A fault (overflow,
 * division by 0, no such name) is a value, so that an operand that is not evaluated may hold one. */
static const i64 kFault = INT64_MIN;
static char names[512][80];
static i64 values[512], nameCount;
static i64 *value(const char *format, const char *name, int index) {
  snprintf(names[nameCount], sizeof names[0], format, name, index);
  i64 i = 0;
  while (strcmp(names[i], names[nameCount])) ++i; /* at the latest it finds itself */
  if (i == 511) DIE("too many names");
  if (i == nameCount) values[nameCount++] = kFault;
  return &values[i];
}
static const char *at; /* the rest of the expression */
static int take(const char *token) {
  at += strspn(at, " ");
  return strncmp(at, token, strlen(token)) ? 0 : (at += strlen(token), 1);
}
static i64 apply(const char *op, i64 a, i64 b) {
  i64 r = kFault;
  if (a == kFault) return a;
  if (op[0] == '|') return a ? 1 : b == kFault ? b : !!b;
  if (op[0] == '&') return !a ? 0 : b == kFault ? b : !!b;
  if (b == kFault) return b;
  switch (op[0]) {
  case '=': return a == b;
  case '!': return a != b;
  case '<': return op[1] ? a <= b : a < b;
  case '>': return op[1] ? a >= b : a > b;
  case '+': return __builtin_add_overflow(a, b, &r) ? kFault : r;
  case '-': return __builtin_sub_overflow(a, b, &r) ? kFault : r;
  case '*': return __builtin_mul_overflow(a, b, &r) ? kFault : r;
  default: return !b ? kFault : op[0] == '/' ? a / b : a % b;
  }
}
static i64 binary(int level);
static i64 atom(void) {
  char name[64] = "";
  int index, n = 0;
  i64 v[3] = {0};
  if (take("-")) return apply("-", 0, atom());
  if (take("!")) return apply("==", atom(), 0);
  if (take("(")) return v[0] = binary(0), take(")") ? v[0] : kFault;
  if (sscanf(at, "%19[0-9]%n", name, &n) == 1) return at += n, strtoll(name, NULL, 10);
  if (sscanf(at, "%50[A-Za-z0-9_.]%n", name, &n) != 1) return kFault;
  at += n;
  if (sscanf(at, "[%d]%n", &index, &n) == 1) return at += n, *value("%s[%d]", name, index);
  if (!take("(")) return *value("%s", name, 0);
  for (n = 0; n < 3 && (n == 0 || take(",")); ++n) v[n] = binary(0);
  if (!take(")") || v[0] == kFault) return kFault;
  if (!strcmp(name, "if")) return v[0] ? v[1] : v[2];
  if (!strcmp(name, "pow2floor")) return v[0] < 1 ? kFault : 1ll << (63 - __builtin_clzll((uint64_t)v[0]));
  if (v[1] == kFault) return kFault;
  if (!strcmp(name, "min")) return v[0] < v[1] ? v[0] : v[1];
  if (!strcmp(name, "max")) return v[0] > v[1] ? v[0] : v[1];
  return strcmp(name, "ceildiv") || v[1] < 1 ? kFault : v[0] / v[1] + (v[0] % v[1] > 0);
}
static i64 binary(int level) { /* 0: ||, 1: &&, 2: comparisons, 3: sums, 4: products */
  static const char *const operators[5][7] = {
      {"||"}, {"&&"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};
  if (level == 5) return atom();
  i64 a = binary(level + 1);
  for (int i = 0; operators[level][i]; ++i)
    for (; take(operators[level][i]); i = 0) a = apply(operators[level][i], a, binary(level + 1));
  return a;
}
static const cJSON *field(const cJSON *object, const char *name) {
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
  if (!found) DIE("the manifest lacks '%s'", name);
  return found;
}
static const char *text(const cJSON *object, const char *name) {
  return cJSON_IsString(field(object, name)) ? field(object, name)->valuestring : "";
}
static i64 eval(const cJSON *expression) {
  if (cJSON_IsNumber(expression)) return (i64)expression->valuedouble;
  at = cJSON_IsString(expression) ? expression->valuestring : "";
  i64 result = binary(0);
  if (result == kFault || at[strspn(at, " ")])
    DIE("cannot evaluate '%s'; names are given as NAME=N", expression->valuestring);
  return result;
}

/* A packed tensor: sets its strides and address, draws an input, poisons an output. "#q" counts its elements. */
static void makeTensor(const cJSON *argument, const char *name, i64 elementBytes, int one) {
  const cJSON *shape = field(argument, "shape");
  i64 elements = 1;
  for (int d = cJSON_GetArraySize(shape) - 1; d >= 0; --d) {
    *value("%s.stride[%d]", name, d) = elements;
    elements *= *value("%s.extent[%d]", name, d) = eval(cJSON_GetArrayItem(shape, d));
  }
  uint16_t *host = memset(malloc((size_t)(elements * elementBytes) + 1), 0xff, (size_t)(elements * elementBytes));
  for (i64 i = 0; !strcmp(text(argument, "direction"), "in") && i < elements; ++i)
    host[i] = (uint16_t)(strcmp(name, "v") ? one ^ (rand() & 0x801f) : one);
  i64 *memory = value("&%s", name, 0);
  CU(cuMemAlloc_v2, (i64 *, i64), memory, elements * elementBytes + 1);
  CU(cuMemcpyHtoD_v2, (i64, void *, i64), *memory, host, elements * elementBytes);
  *value("#%s", name, 0) = elements;
  free(host);
}

/* The map of a packed tensor [batch, seq, heads, d]: dims and byte strides from the innermost, no padding but zeros. */
static void encodeMap(const cJSON *parameter, const char *of, const char *dtype, void *map) {
  static const u swizzles[] = {0, 32, 64, 128}, ones[4] = {1, 1, 1, 1};
  static const int order[4] = {3, 1, 2, 0};
  const u box[4] = {(u)field(parameter, "box_cols")->valueint, (u)field(parameter, "box_rows")->valueint, 1, 1};
  const int type = !strcmp(dtype, "f16") ? 6 : !strcmp(dtype, "f32") ? 7 : 9, bytes = type == 7 ? 4 : 2;
  i64 dims[4], strides[4];
  int swizzle = 0;
  while (swizzle < 3 && (int)swizzles[swizzle] != field(parameter, "swizzle")->valueint) ++swizzle;
  for (int i = 0; i < 4; ++i) { /* an extent of 0 is encoded as 1, and its tensor's strides, 0, as any */
    dims[i] = *value("%s.extent[%d]", of, order[i]);
    strides[i] = *value("%s.stride[%d]", of, order[i]) * bytes;
    if (!dims[i]) dims[i] = 1;
    if (!strides[i]) strides[i] = 16;
  }
  CU(cuTensorMapEncodeTiled, (void *, int, u, i64, i64 *, i64 *, const u *, const u *, int, int, int, int), map, type,
     4, *value("&%s", of, 0), dims, strides + 1, box, ones, 0, swizzle, 3, 0);
}

int main(int argc, char **argv) {
  static char ptx[1 << 24], json[1 << 24], name[64];
  i64 number, workspace;
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  if (!file || !fread(ptx, 1, sizeof ptx - 1, file)) DIE("usage: launch FILE.ptx NAME=N...");
  const char *line = ptx, *end = strstr(ptx, "\n// fa2-manifest-end");
  if (strncmp(ptx, "// fa2-manifest-begin\n", 22) || !end) DIE("%s has no manifest", argv[1]);
  for (char *to = json; (line = strchr(line, '\n')) < end;) /* drops the "// " of each line */
    for (line += 4; line < end && *line != '\n';) *to++ = *line++;
  cJSON *manifest = cJSON_Parse(json), *a, *p, *t;
  if (!manifest || field(manifest, "fa2_manifest")->valueint != 1) DIE("%s: no manifest of version 1", argv[1]);
  for (int i = 2; i < argc; ++i)
    if (sscanf(argv[i], "%63[a-z_]=%lld", name, &number) == 2) *value("%s", name, 0) = number;
    else DIE("expected NAME=N, got '%s'", argv[i]);

  static const char *const fields[] = {"multiprocessors", "l2_bytes", "shared_bytes_per_block", "major", "minor"};
  static const int attributes[] = {16, 38, 97, 75, 76};
  void *context, *module, *function;
  int attribute, one = strcmp(text(field(manifest, "specification"), "dtype"), "f16") ? 0x3f80 : 0x3c00;
  CU(cuInit, (unsigned), 0);
  CU(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
  CU(cuCtxPushCurrent_v2, (void *), context);
  for (int i = 0; i < 5; *value("device.%s", fields[i++], 0) = attribute)
    CU(cuDeviceGetAttribute, (int *, int, int), &attribute, attributes[i], 0);
  number = *value("device.compute_capability", "", 0) = attribute + 10 * *value("device.major", "", 0);
  const cJSON *target = field(manifest, "target");
  const int least = field(target, "min_compute_capability")->valueint;
  if (number < least || (number > least && cJSON_IsTrue(field(target, "family"))))
    DIE("the kernels are for %s; the device has compute capability %lld", text(target, "arch"), number);
  CU(cuModuleLoadDataEx, (void **, void *, unsigned, void *, void *), &module, ptx, 0, NULL, NULL);
  cJSON_ArrayForEach(a, field(manifest, "arguments")) {
    const char *dtype = text(a, "dtype");
    if (!strcmp(text(a, "kind"), "tensor")) {
      makeTensor(a, text(a, "name"), strstr(dtype, "32") ? 4 : 2, one);
    } else { /* a scalar takes its default; its bits are kept where a tensor keeps its address */
      float real = (float)field(a, "default")->valuedouble;
      i64 *bits = value("&%s", text(a, "name"), 0);
      *bits = *value("%s", text(a, "name"), 0) = (i64)field(a, "default")->valuedouble;
      if (dtype[0] == 'f') memcpy(bits, &real, sizeof real);
    }
  }
  cJSON_ArrayForEach(a, field(manifest, "requires")) if (!eval(field(a, "that"))) DIE("%s", text(a, "message"));
  number = eval(field(field(manifest, "workspace"), "bytes"));
  CU(cuMemAlloc_v2, (i64 *, i64), &workspace, number + 1);
  CU(cuMemsetD8_v2, (i64, unsigned char, i64), workspace, 0, number + 1); /* some kernels want zeros, and leave them */
  cJSON_ArrayForEach(a, field(manifest, "launches")) {
    unsigned grid[3], block[3], shared = (unsigned)field(a, "shared_bytes")->valueint, n = 0;
    i64 slots[64];
    static _Alignas(64) char maps[64][128];
    void *parameters[64];
    if (cJSON_HasObjectItem(a, "when") && !eval(field(a, "when"))) continue;
    for (int d = 0; d < 3; ++d) {
      grid[d] = (unsigned)eval(cJSON_GetArrayItem(field(a, "grid"), d));
      block[d] = (unsigned)eval(cJSON_GetArrayItem(field(a, "block"), d));
      if (eval(cJSON_GetArrayItem(field(a, "cluster"), d)) != 1) DIE("clusters are beyond this example");
    }
    cJSON_ArrayForEach(p, field(a, "parameters")) {
      const char *kind = text(p, "kind"), *of = cJSON_HasObjectItem(p, "of") ? text(p, "of") : "";
      i64 *slot = parameters[n] = &slots[n];
      if (++n == 64) DIE("too many parameters");
      if (!strcmp(kind, "pointer") || !strcmp(kind, "scalar")) *slot = *value("&%s", of, 0);
      else if (!strcmp(kind, "stride")) *slot = *value("%s.stride[%d]", of, field(p, "dim")->valueint);
      else if (!strcmp(kind, "i32") || !strcmp(kind, "i64")) *slot = eval(field(p, "value"));
      else if (!strcmp(kind, "workspace")) *slot = workspace + eval(field(p, "offset"));
      else if (!strcmp(kind, "tensor_map")) {
        cJSON_ArrayForEach(t, field(manifest, "arguments")) if (!strcmp(text(t, "name"), of))
            encodeMap(p, of, text(t, "dtype"), parameters[n - 1] = maps[n - 1]);
      } else DIE("parameters of kind '%s' are beyond this example", kind);
    }
    if (!grid[0] || !grid[1] || !grid[2]) continue;
    CU(cuModuleGetFunction, (void **, void *, const char *), &function, module, text(a, "kernel"));
    CU(cuFuncSetAttribute, (void *, int, unsigned), function, 8, shared); /* the limit of dynamic shared memory */
    CU(cuLaunchKernel, (void *, u, u, u, u, u, u, u, void *, void **, void **), function, grid[0], grid[1], grid[2],
       block[0], block[1], block[2], shared, NULL, parameters, NULL);
  }

  i64 count = *value("#out", "", 0), ones = 0, zeros = 0;
  uint16_t *out = malloc((size_t)count * 2 + 1);
  CU(cuMemcpyDtoH_v2, (void *, i64, i64), out, *value("&out", "", 0), count * 2);
  for (i64 i = 0; i < count; ++i) ones += abs(out[i] - one) <= 4, zeros += (out[i] & 0x7fff) == 0; /* up to 4 ulp */
  printf("%lld elements: %lld are 1, %lld are 0, %lld wrong\n", count, ones, zeros, count - ones - zeros);
  return ones + zeros != count;
}

/* launch.c - runs a kernel of fa2 with the CUDA driver and its manifest alone (docs/manifest.md), and cJSON:
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
  return found ? found : (DIE("no CUDA driver: %s", dlerror()), NULL);
}
static int check(int error, const char *name) { return error ? (DIE("%s: CUDA error %d", name, error), 1) : 0; }

/* What expressions may name: dimensions, strides, integer scalars, the device; "&q" is q's address. */
static char names[512][80];
static i64 values[512], nameCount, kUnset = INT64_MIN;
static i64 *value(const char *format, const char *name, int index) {
  snprintf(names[nameCount], sizeof names[0], format, name, index);
  i64 i = 0;
  while (strcmp(names[i], names[nameCount])) ++i; /* at the latest it finds itself */
  if (i == nameCount) values[nameCount++] = kUnset;
  return i < 511 ? &values[i] : (DIE("too many names"), NULL);
}
static i64 known(const i64 *v) { return *v != kUnset ? *v : (DIE("give %s=N", names[v - values]), 0); }
/* Expressions (docs/manifest.md), taken not to overflow; a division by 0 gives 0. `at` is the rest of one. */
static const char *at;
static int take(const char *token) {
  at += strspn(at, " ");
  return strncmp(at, token, strlen(token)) ? 0 : (at += strlen(token), 1);
}
static i64 apply(const char *op, i64 a, i64 b) {
  const int c = op[0], equal = op[1] == '=';
  if (c == '|' || c == '&') return c == '|' ? a || b : a && b;
  if (c == '=' || c == '!') return (a == b) == (c == '=');
  if (c == '<' || c == '>') return (equal && a == b) || (c == '<' ? a < b : a > b);
  if (c == '+' || c == '-') return c == '+' ? a + b : a - b;
  return c == '*' ? a * b : !b ? 0 : c == '/' ? a / b : a % b;
}
static i64 binary(int level);
static i64 atom(void) {
  char name[64] = "";
  int index, n = 0;
  i64 v[3] = {0};
  if (take("-")) return -atom();
  if (take("!")) return !atom();
  if (take("(")) return v[0] = binary(0), take(")") ? v[0] : (DIE("expected ')' at '%s'", at), 0);
  if (sscanf(at, "%19[0-9]%n", name, &n) == 1) return at += n, strtoll(name, NULL, 10);
  if (sscanf(at, "%50[A-Za-z0-9_.]%n", name, &n) != 1) DIE("expected an operand at '%s'", at);
  at += n;
  if (sscanf(at, "[%d]%n", &index, &n) == 1) return at += n, known(value("%s[%d]", name, index));
  if (!take("(")) return known(value("%s", name, 0));
  for (n = 0; n < 3 && (n == 0 || take(",")); ++n) v[n] = binary(0);
  if (!take(")")) DIE("expected ')' at '%s'", at);
  if (!strcmp(name, "if")) return v[0] ? v[1] : v[2];
  if (!strcmp(name, "pow2floor")) return 1ll << (63 - __builtin_clzll((uint64_t)(v[0] < 1 ? 1 : v[0])));
  if (!strcmp(name, "min")) return v[0] < v[1] ? v[0] : v[1];
  if (!strcmp(name, "max")) return v[0] > v[1] ? v[0] : v[1];
  return v[1] < 1 ? 0 : v[0] / v[1] + (v[0] % v[1] > 0); /* ceildiv */
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
  return found ? found : (DIE("the manifest lacks '%s'", name), NULL);
}
static const char *text(const cJSON *o, const char *n) {
  return cJSON_IsString(field(o, n)) ? field(o, n)->valuestring : "";
}
static i64 eval(const cJSON *expression) {
  at = cJSON_IsString(expression) ? expression->valuestring : "";
  const i64 result = cJSON_IsNumber(expression) ? (i64)expression->valuedouble : binary(0);
  return at[strspn(at, " ")] ? (DIE("cannot evaluate '%s'", expression->valuestring), 0) : result;
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
  CU(cuMemAlloc_v2, (i64 *, i64), value("&%s", name, 0), elements * elementBytes + 1);
  CU(cuMemcpyHtoD_v2, (i64, void *, i64), *value("&%s", name, 0), host, elements * elementBytes);
  free(host), *value("#%s", name, 0) = elements;
}

/* The map of a packed tensor [batch, seq, heads, d]: dims and byte strides from the innermost, no padding but zeros. */
static void encodeMap(const cJSON *parameter, const char *of, const char *dtype, void *map) {
  static const u swizzles[] = {0, 32, 64, 128}, ones[4] = {1, 1, 1, 1}, order[4] = {3, 1, 2, 0};
  const cJSON *cols = field(parameter, "box_cols"), *heads = cJSON_GetObjectItem(parameter, "box_heads");
  const u box[] = {(u)cols->valueint, (u)field(parameter, "box_rows")->valueint, heads ? (u)heads->valueint : 1, 1};
  const int type = !strcmp(dtype, "f16") ? 6 : !strcmp(dtype, "f32") ? 7 : 9, bytes = type == 7 ? 4 : 2;
  i64 dims[4], strides[4], swizzle = 0;
  for (; swizzle < 3 && (int)swizzles[swizzle] != field(parameter, "swizzle")->valueint;) ++swizzle;
  for (int i = 0; i < 4; ++i) { /* an extent of 0 is encoded as 1, and its tensor's strides, 0, as any */
    if (!(dims[i] = *value("%s.extent[%d]", of, (int)order[i]))) dims[i] = 1;
    if (!(strides[i] = *value("%s.stride[%d]", of, (int)order[i]) * bytes)) strides[i] = 16;
  }
  CU(cuTensorMapEncodeTiled, (void *, int, u, i64, i64 *, i64 *, const u *, const u *, int, int, int, int), map, type,
     4, *value("&%s", of, 0), dims, strides + 1, box, ones, 0, (int)swizzle, 3, 0);
}

int main(int argc, char **argv) {
  static char ptx[1 << 24], json[1 << 24], name[64];
  i64 number, workspace, ones = 0, zeros = 0;
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  if (!file || !fread(ptx, 1, sizeof ptx - 1, file)) DIE("usage: launch FILE.ptx NAME=N...");
  char *line = ptx, *end = strstr(ptx, "\n// fa2-manifest-end"), *to = json;
  if (strncmp(ptx, "// fa2-manifest-begin\n", 22) || !end) DIE("%s has no manifest", argv[1]);
  while ((line = strchr(line, '\n')) < end) /* drops the "// " of each line */
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
  const cJSON *target = field(manifest, "target"), *least = field(target, "min_compute_capability");
  if (number < least->valueint || (number > least->valueint && cJSON_IsTrue(field(target, "family"))))
    DIE("the kernels are for %s; the device has compute capability %lld", text(target, "arch"), number);
  CU(cuModuleLoadDataEx, (void **, void *, unsigned, void *, void *), &module, ptx, 0, NULL, NULL);
  cJSON_ArrayForEach(a, field(manifest, "arguments")) {
    const char *dtype = text(a, "dtype"), *its = text(a, "name");
    if (!strcmp(text(a, "kind"), "tensor")) makeTensor(a, its, strstr(dtype, "32") ? 4 : 2, one);
    else { /* a scalar takes its default; its bits are kept where a tensor keeps its address */
      const float real = (float)field(a, "default")->valuedouble;
      *value("&%s", its, 0) = *value("%s", its, 0) = (i64)field(a, "default")->valuedouble;
      if (dtype[0] == 'f') memcpy(value("&%s", its, 0), &real, sizeof real);
    }
  }
  cJSON_ArrayForEach(a, field(manifest, "requires")) if (!eval(field(a, "that"))) DIE("%s", text(a, "message"));
  number = eval(field(field(manifest, "workspace"), "bytes"));
  CU(cuMemAlloc_v2, (i64 *, i64), &workspace, number + 1);
  CU(cuMemsetD8_v2, (i64, unsigned char, i64), workspace, 0, number + 1); /* some kernels want zeros, and leave them */
  cJSON_ArrayForEach(a, field(manifest, "launches")) {
    unsigned grid[3], block[3], shared = (unsigned)field(a, "shared_bytes")->valueint, n = 0;
    static _Alignas(64) char maps[64][128];
    static i64 slots[64], *parameters[64];
    if (cJSON_HasObjectItem(a, "when") && !eval(field(a, "when"))) continue;
    for (int d = 0; d < 3; ++d) {
      grid[d] = (unsigned)eval(cJSON_GetArrayItem(field(a, "grid"), d));
      block[d] = (unsigned)eval(cJSON_GetArrayItem(field(a, "block"), d));
      if (eval(cJSON_GetArrayItem(field(a, "cluster"), d)) != 1) DIE("clusters are beyond this example");
    }
    cJSON_ArrayForEach(p, field(a, "parameters")) {
      const char *kind = text(p, "kind"), *of = cJSON_HasObjectItem(p, "of") ? text(p, "of") : "";
      i64 *slot = parameters[n] = n < 63 ? &slots[n] : (DIE("too many parameters"), NULL);
      if (!strcmp(kind, "pointer") || !strcmp(kind, "scalar")) *slot = *value("&%s", of, 0);
      else if (!strcmp(kind, "stride")) *slot = *value("%s.stride[%d]", of, field(p, "dim")->valueint);
      else if (!strcmp(kind, "i32") || !strcmp(kind, "i64")) *slot = eval(field(p, "value"));
      else if (!strcmp(kind, "workspace")) *slot = workspace + eval(field(p, "offset"));
      else if (!strcmp(kind, "tensor_map")) {
        cJSON_ArrayForEach(t, field(manifest, "arguments")) if (!strcmp(text(t, "name"), of))
            encodeMap(p, of, text(t, "dtype"), parameters[n] = (i64 *)maps[n]);
      } else DIE("parameters of kind '%s' are beyond this example", kind);
      ++n;
    }
    if (!grid[0] || !grid[1] || !grid[2]) continue;
    CU(cuModuleGetFunction, (void **, void *, const char *), &function, module, text(a, "kernel"));
    CU(cuFuncSetAttribute, (void *, int, unsigned), function, 8, shared); /* the limit of dynamic shared memory */
    CU(cuLaunchKernel, (void *, u, u, u, u, u, u, u, void *, i64 **, void **), function, grid[0], grid[1], grid[2],
       block[0], block[1], block[2], shared, NULL, parameters, NULL);
  }

  const i64 count = *value("#out", "", 0);
  uint16_t *out = malloc((size_t)count * 2 + 1);
  CU(cuMemcpyDtoH_v2, (void *, i64, i64), out, *value("&out", "", 0), count * 2);
  for (i64 i = 0; i < count; ++i) ones += abs(out[i] - one) <= 4, zeros += (out[i] & 0x7fff) == 0; /* up to 4 ulp */
  printf("%lld elements: %lld are 1, %lld are 0, %lld wrong\n", count, ones, zeros, count - ones - zeros);
  return ones + zeros != count;
}

/*===- launch.c - launch a kernel with the CUDA driver alone ---------------===*
 *
 *   launch attention.ptx batch=2 heads=8 heads_kv=8 seqlen_q=1000 seqlen_k=1000
 *
 * What a program does that uses neither the fa2 runtime nor a CUDA toolkit: it
 * reads the manifest in the file's leading comment (docs/manifest.md), makes
 * the arguments, and launches every kernel whose guard holds. It needs cJSON,
 * and finds the driver's functions by dlopen.
 *
 * Tensors are packed. v is 1 everywhere and the other inputs are random, so
 * that each row of `out` that sees a key is 1, and the others are 0. Left out
 * is what a real launcher checks: that shapes, strides and alignments of the
 * caller's tensors are as the manifest asks, and that integers do not overflow.
 *
 *===----------------------------------------------------------------------===*/
#include <cjson/cJSON.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

/*===----------------------------------------------------------------------===*
 * The driver. Its functions return 0 for success; addresses on the device are
 * 64-bit integers, handles are pointers.
 *===----------------------------------------------------------------------===*/

typedef uint64_t DevicePointer;

static int (*cuInit)(unsigned flags);
static int (*cuDevicePrimaryCtxRetain)(void **context, int device);
static int (*cuCtxPushCurrent)(void *context);
static int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
static int (*cuModuleLoadDataEx)(void **module, const void *image, unsigned optionCount, void *options,
                                 void **optionValues);
static int (*cuModuleGetFunction)(void **function, void *module, const char *name);
static int (*cuFuncSetAttribute)(void *function, int attribute, int value);
static int (*cuMemAlloc)(DevicePointer *address, size_t bytes);
static int (*cuMemsetD8)(DevicePointer address, unsigned char value, size_t bytes);
static int (*cuMemcpyHtoD)(DevicePointer to, const void *from, size_t bytes);
static int (*cuMemcpyDtoH)(void *to, DevicePointer from, size_t bytes);
static int (*cuTensorMapEncodeTiled)(void *map, int type, uint32_t rank, DevicePointer address, const uint64_t *extents,
                                     const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                                     int interleave, int swizzle, int l2Promotion, int fill);
static int (*cuLaunchKernel)(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                             unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *stream, void **parameters,
                             void **extra);

static void loadDriver(void) {
  /* The functions' names in the library have a version where a newer one
     replaced the first. */
  struct {
    const char *name;
    void *pointer;
  } functions[] = {
      {"cuInit", &cuInit},
      {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
      {"cuCtxPushCurrent_v2", &cuCtxPushCurrent},
      {"cuDeviceGetAttribute", &cuDeviceGetAttribute},
      {"cuModuleLoadDataEx", &cuModuleLoadDataEx},
      {"cuModuleGetFunction", &cuModuleGetFunction},
      {"cuFuncSetAttribute", &cuFuncSetAttribute},
      {"cuMemAlloc_v2", &cuMemAlloc},
      {"cuMemsetD8_v2", &cuMemsetD8},
      {"cuMemcpyHtoD_v2", &cuMemcpyHtoD},
      {"cuMemcpyDtoH_v2", &cuMemcpyDtoH},
      {"cuTensorMapEncodeTiled", &cuTensorMapEncodeTiled},
      {"cuLaunchKernel", &cuLaunchKernel},
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) die("no CUDA driver: %s", dlerror());
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    void *found = dlsym(library, functions[i].name);
    /* Drivers before 12.0 have no tensor maps, and kernels that want them do
       not run there. */
    if (!found && functions[i].pointer != (void *)&cuTensorMapEncodeTiled)
      die("the driver lacks %s", functions[i].name);
    memcpy(functions[i].pointer, &found, sizeof found);
  }
}

static void check(int error, const char *what) {
  if (error != 0) die("%s: CUDA error %d", what, error);
}

/*===----------------------------------------------------------------------===*
 * What expressions may name: dimensions, strides, integer scalars, the device.
 *===----------------------------------------------------------------------===*/

typedef struct {
  char name[80];
  int64_t value;
} Variable;

static Variable variables[512];
static size_t variableCount = 0;

static Variable *find(const char *name) {
  for (size_t i = 0; i < variableCount; ++i)
    if (strcmp(variables[i].name, name) == 0) return &variables[i];
  return NULL;
}

static void set(const char *name, int64_t value) {
  Variable *variable = find(name);
  if (!variable) {
    if (variableCount == sizeof variables / sizeof variables[0]) die("too many names");
    variable = &variables[variableCount++];
    snprintf(variable->name, sizeof variable->name, "%s", name);
  }
  variable->value = value;
}

static int64_t get(const char *name) {
  Variable *variable = find(name);
  if (!variable) die("give %s=N", name);
  return variable->value;
}

/*===----------------------------------------------------------------------===*
 * Expressions, by recursive descent: the grammar is in docs/manifest.md. `at`
 * is what has not been read yet.
 *===----------------------------------------------------------------------===*/

static const char *at;

static bool take(const char *token) {
  while (*at == ' ') ++at;
  size_t length = strlen(token);
  if (strncmp(at, token, length) != 0) return false;
  at += length;
  return true;
}

static void expect(const char *token) {
  if (!take(token)) die("expected '%s' at '%s'", token, at);
}

static int64_t expression(void);

static int64_t call(const char *function) {
  int64_t arguments[3] = {0, 0, 0};
  int count = 0;
  do {
    if (count == 3) die("too many arguments at '%s'", at);
    arguments[count++] = expression();
  } while (take(","));
  expect(")");

  int64_t a = arguments[0], b = arguments[1];
  if (strcmp(function, "if") == 0) return a ? b : arguments[2];
  if (strcmp(function, "min") == 0) return a < b ? a : b;
  if (strcmp(function, "max") == 0) return a > b ? a : b;
  if (strcmp(function, "ceildiv") == 0) {
    if (b <= 0) return 0; /* in an arm of `if` that is not taken */
    return a / b + (a % b > 0);
  }
  if (strcmp(function, "pow2floor") == 0) {
    int64_t power = 1;
    while (power <= a / 2) power *= 2;
    return power;
  }
  die("unknown function '%s'", function);
  return 0;
}

/* A dimension, an argument's stride, a field of the device, or a call. */
static int64_t named(void) {
  char name[80];
  size_t length = 0;
  while (length < sizeof name - 1 && (isalnum((unsigned char)*at) || *at == '_' || *at == '.')) name[length++] = *at++;
  name[length] = '\0';
  if (length == 0) die("expected an operand at '%s'", at);
  if (take("(")) return call(name);
  if (*at == '[') /* q.stride[1] is stored under just that name */
    while (*at && length < sizeof name - 1 && at[-1] != ']') name[length++] = *at++;
  name[length] = '\0';
  return get(name);
}

static int64_t unary(void) {
  if (take("-")) return -unary();
  if (take("!")) return !unary();
  if (take("(")) {
    int64_t value = expression();
    expect(")");
    return value;
  }
  if (isdigit((unsigned char)*at)) {
    char *end;
    int64_t value = strtoll(at, &end, 10);
    at = end;
    return value;
  }
  return named();
}

static int64_t term(void) {
  int64_t value = unary();
  for (;;) {
    if (take("*")) {
      value *= unary();
    } else if (take("/")) {
      int64_t by = unary();
      value = by ? value / by : 0; /* 0 only in an arm that is not taken */
    } else if (take("%")) {
      int64_t by = unary();
      value = by ? value % by : 0;
    } else {
      return value;
    }
  }
}

static int64_t sum(void) {
  int64_t value = term();
  for (;;) {
    if (take("+")) value += term();
    else if (take("-")) value -= term();
    else return value;
  }
}

static int64_t comparison(void) {
  int64_t a = sum();
  if (take("==")) return a == sum();
  if (take("!=")) return a != sum();
  if (take("<=")) return a <= sum();
  if (take(">=")) return a >= sum();
  if (take("<")) return a < sum();
  if (take(">")) return a > sum();
  return a;
}

static int64_t conjunction(void) {
  int64_t value = comparison();
  while (take("&&")) {
    int64_t right = comparison();
    value = value && right;
  }
  return value;
}

static int64_t expression(void) {
  int64_t value = conjunction();
  while (take("||")) {
    int64_t right = conjunction();
    value = value || right;
  }
  return value;
}

/*===----------------------------------------------------------------------===*
 * The manifest
 *===----------------------------------------------------------------------===*/

static const cJSON *field(const cJSON *object, const char *name) {
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
  if (!found) die("the manifest lacks '%s'", name);
  return found;
}

static const char *textField(const cJSON *object, const char *name) {
  const cJSON *found = field(object, name);
  if (!cJSON_IsString(found)) die("the manifest's '%s' is no string", name);
  return found->valuestring;
}

static bool is(const cJSON *object, const char *name, const char *text) {
  return strcmp(textField(object, name), text) == 0;
}

/* An expression, or a bare integer in its place. */
static int64_t evaluate(const cJSON *item) {
  if (cJSON_IsNumber(item)) return (int64_t)item->valuedouble;
  if (!cJSON_IsString(item)) die("the manifest has something that is no expression");
  at = item->valuestring;
  int64_t value = expression();
  if (*at) die("cannot read '%s' from '%s' on", item->valuestring, at);
  return value;
}

/* The lines between the marks, each without its leading slashes and space. */
static cJSON *readManifest(const char *ptx) {
  static const char begin[] = "// fa2-manifest-begin\n";
  const char *end = strstr(ptx, "// fa2-manifest-end");
  if (strncmp(ptx, begin, strlen(begin)) != 0 || !end) die("the file has no manifest");
  char *json = malloc((size_t)(end - ptx) + 1);
  size_t length = 0;
  for (const char *line = ptx + strlen(begin); line < end;) {
    const char *next = strchr(line, '\n') + 1;
    size_t bytes = (size_t)(next - line);
    if (bytes >= 4) {
      memcpy(json + length, line + 3, bytes - 3);
      length += bytes - 3;
    }
    line = next;
  }
  json[length] = '\0';
  cJSON *manifest = cJSON_Parse(json);
  if (!manifest || field(manifest, "fa2_manifest")->valueint != 1)
    die("the file has no manifest of version 1; fa2-compile --variants none makes one");
  free(json);
  return manifest;
}

static char *readFile(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) die("cannot open %s", path);
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  char *text = malloc((size_t)bytes + 1);
  if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes) die("cannot read %s", path);
  text[bytes] = '\0';
  fclose(file);
  return text;
}

/*===----------------------------------------------------------------------===*
 * The device
 *===----------------------------------------------------------------------===*/

static void openDevice(const cJSON *target) {
  /* CUdevice_attribute of cuda.h */
  enum { multiprocessors = 16, l2 = 38, major = 75, minor = 76, shared = 97 };
  void *context;
  check(cuInit(0), "cuInit");
  check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(cuCtxPushCurrent(context), "cuCtxPushCurrent");

  int value, capability;
  check(cuDeviceGetAttribute(&value, multiprocessors, 0), "multiprocessors");
  set("device.multiprocessors", value);
  check(cuDeviceGetAttribute(&value, l2, 0), "bytes of the L2 cache");
  set("device.l2_bytes", value);
  check(cuDeviceGetAttribute(&value, shared, 0), "bytes of shared memory");
  set("device.shared_bytes_per_block", value);
  check(cuDeviceGetAttribute(&capability, major, 0), "major capability");
  check(cuDeviceGetAttribute(&value, minor, 0), "minor capability");
  capability = 10 * capability + value;
  set("device.compute_capability", capability);

  int least = field(target, "min_compute_capability")->valueint;
  bool thatOneAlone = cJSON_IsTrue(field(target, "family"));
  if (capability < least || (thatOneAlone && capability != least))
    die("the kernels are for %s; the device has compute capability %d", textField(target, "arch"), capability);
}

/*===----------------------------------------------------------------------===*
 * Arguments
 *===----------------------------------------------------------------------===*/

typedef struct {
  const char *name, *dtype;
  DevicePointer address; /* of a tensor */
  uint64_t scalar;       /* the bits of a scalar */
  int rank;
  int64_t extents[8], strides[8]; /* strides in elements */
} Argument;

static Argument arguments[32];
static size_t argumentCount = 0;

static Argument *argument(const char *name) {
  for (size_t i = 0; i < argumentCount; ++i)
    if (strcmp(arguments[i].name, name) == 0) return &arguments[i];
  die("the manifest has no argument '%s'", name);
  return NULL;
}

static int64_t elementBytes(const Argument *a) { return strstr(a->dtype, "32") ? 4 : 2; }

static int64_t elementCount(const Argument *a) {
  int64_t count = 1;
  for (int d = 0; d < a->rank; ++d) count *= a->extents[d];
  return count;
}

/* 1 in the 16-bit types. */
static uint16_t one(const char *dtype) { return strcmp(dtype, "f16") == 0 ? 0x3c00 : 0x3f80; }

/* A scalar takes its default. */
static void makeScalar(Argument *a, const cJSON *description) {
  double value = field(description, "default")->valuedouble;
  if (a->dtype[0] == 'f') {
    float real = (float)value;
    memcpy(&a->scalar, &real, sizeof real);
  } else {
    a->scalar = (uint64_t)(int64_t)value;
    set(a->name, (int64_t)value);
  }
}

static void makeTensor(Argument *a, const cJSON *description) {
  const cJSON *shape = field(description, "shape");
  a->rank = cJSON_GetArraySize(shape);
  int64_t stride = 1;
  for (int d = a->rank - 1; d >= 0; --d) {
    char name[80];
    a->extents[d] = evaluate(cJSON_GetArrayItem(shape, d));
    a->strides[d] = stride;
    snprintf(name, sizeof name, "%s.stride[%d]", a->name, d);
    set(name, stride);
    stride *= a->extents[d];
  }

  /* v is 1, other inputs are +-1 with random low bits; what is written is
     filled with NaN first, to see that all of it is written. */
  size_t bytes = (size_t)(elementCount(a) * elementBytes(a));
  uint16_t *host = malloc(bytes + 1);
  memset(host, 0xff, bytes);
  if (is(description, "direction", "in"))
    for (size_t i = 0; i < bytes / 2; ++i)
      host[i] = (uint16_t)(strcmp(a->name, "v") == 0 ? one(a->dtype) : one(a->dtype) ^ (rand() & 0x801f));
  check(cuMemAlloc(&a->address, bytes + 1), "cuMemAlloc");
  check(cuMemcpyHtoD(a->address, host, bytes), "cuMemcpyHtoD");
  free(host);
}

static void makeArguments(const cJSON *manifest) {
  const cJSON *description;
  cJSON_ArrayForEach(description, field(manifest, "arguments")) {
    if (argumentCount == sizeof arguments / sizeof arguments[0]) die("too many arguments");
    Argument *a = &arguments[argumentCount++];
    a->name = textField(description, "name");
    a->dtype = textField(description, "dtype");
    if (is(description, "kind", "tensor")) makeTensor(a, description);
    else makeScalar(a, description);
  }
}

/*===----------------------------------------------------------------------===*
 * Parameters and launches
 *===----------------------------------------------------------------------===*/

typedef union {
  uint64_t number;
  _Alignas(64) unsigned char map[128];
} Parameter;

/* The map of a tensor [batch, seq, heads, d], whose dimensions the driver takes
   from the innermost on, without that one's stride. */
static void encodeMap(const cJSON *parameter, Parameter *to) {
  static const int dimensionOf[4] = {3, 1, 2, 0}; /* d, seq, heads, batch */
  const Argument *a = argument(textField(parameter, "of"));
  uint64_t extents[4], strides[4];
  for (int i = 0; i < 4; ++i) {
    extents[i] = (uint64_t)a->extents[dimensionOf[i]];
    strides[i] = (uint64_t)(a->strides[dimensionOf[i]] * elementBytes(a));
    /* An extent of 0 is encoded as 1; the strides of such a tensor are not
       used, and any legal one will do. */
    if (extents[i] == 0) extents[i] = 1;
    if (strides[i] == 0) strides[i] = 16;
  }

  const cJSON *heads = cJSON_GetObjectItem(parameter, "box_heads");
  uint32_t box[4] = {(uint32_t)field(parameter, "box_cols")->valueint, (uint32_t)field(parameter, "box_rows")->valueint,
                     heads ? (uint32_t)heads->valueint : 1, 1};
  uint32_t ones[4] = {1, 1, 1, 1};

  /* Enumerations of cuda.h: CU_TENSOR_MAP_DATA_TYPE_..., _SWIZZLE_... */
  enum { f16 = 6, f32 = 7, bf16 = 9, promote128 = 2, none = 0, zeros = 0 };
  int type = strcmp(a->dtype, "f16") == 0 ? f16 : strcmp(a->dtype, "f32") == 0 ? f32 : bf16;
  int swizzle = 0; /* 0: none, 1: 32 bytes, 2: 64, 3: 128 */
  for (int bytes = field(parameter, "swizzle")->valueint; bytes >= 32; bytes /= 2) ++swizzle;
  if (!cuTensorMapEncodeTiled) die("the driver is older than 12.0 and has no tensor maps");
  check(cuTensorMapEncodeTiled(to->map, type, 4, a->address, extents, strides + 1, box, ones, none, swizzle, promote128,
                               zeros),
        "cuTensorMapEncodeTiled");
}

static void fill(const cJSON *parameter, DevicePointer workspace, Parameter *to) {
  if (is(parameter, "kind", "pointer")) {
    to->number = argument(textField(parameter, "of"))->address;
  } else if (is(parameter, "kind", "scalar")) {
    to->number = argument(textField(parameter, "of"))->scalar;
  } else if (is(parameter, "kind", "stride")) {
    const Argument *a = argument(textField(parameter, "of"));
    to->number = (uint64_t)a->strides[field(parameter, "dim")->valueint];
  } else if (is(parameter, "kind", "i32") || is(parameter, "kind", "i64")) {
    to->number = (uint64_t)evaluate(field(parameter, "value"));
  } else if (is(parameter, "kind", "workspace")) {
    to->number = workspace + (uint64_t)evaluate(field(parameter, "offset"));
  } else if (is(parameter, "kind", "tensor_map")) {
    encodeMap(parameter, to);
  } else {
    die("parameters of kind '%s' are not known", textField(parameter, "kind"));
  }
}

static void three(const cJSON *launch, const char *name, unsigned out[3]) {
  for (int d = 0; d < 3; ++d) out[d] = (unsigned)evaluate(cJSON_GetArrayItem(field(launch, name), d));
}

static void launchKernel(const cJSON *launch, void *module, DevicePointer workspace) {
  const cJSON *guard = cJSON_GetObjectItem(launch, "when");
  if (guard && !evaluate(guard)) return;

  unsigned grid[3], block[3], cluster[3];
  three(launch, "grid", grid);
  three(launch, "block", block);
  three(launch, "cluster", cluster);
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
  if (cluster[0] != 1 || cluster[1] != 1 || cluster[2] != 1)
    die("clusters need cuLaunchKernelEx, which is beyond this example");

  static Parameter values[64];
  void *pointers[64];
  int count = 0;
  const cJSON *parameter;
  cJSON_ArrayForEach(parameter, field(launch, "parameters")) {
    if (count == 64) die("too many parameters");
    fill(parameter, workspace, &values[count]);
    pointers[count] = &values[count];
    ++count;
  }

  enum { maxDynamicSharedBytes = 8 }; /* CUfunction_attribute of cuda.h */
  int shared = field(launch, "shared_bytes")->valueint;
  void *function;
  check(cuModuleGetFunction(&function, module, textField(launch, "kernel")), "cuModuleGetFunction");
  check(cuFuncSetAttribute(function, maxDynamicSharedBytes, shared), "cuFuncSetAttribute");
  check(cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], (unsigned)shared, NULL,
                       pointers, NULL),
        "cuLaunchKernel");
}

/* Prints how many elements of `out` are right; whether all are. */
static bool judge(void) {
  const Argument *out = argument("out");
  int64_t count = elementCount(out), ones = 0, zeros = 0;
  uint16_t *host = malloc((size_t)count * 2 + 1);
  check(cuMemcpyDtoH(host, out->address, (size_t)count * 2), "cuMemcpyDtoH");
  for (int64_t i = 0; i < count; ++i) {
    ones += abs(host[i] - one(out->dtype)) <= 4; /* units in the last place */
    zeros += (host[i] & 0x7fff) == 0;
  }
  free(host);
  printf("%lld elements: %lld are 1, %lld are 0, %lld wrong\n", (long long)count, (long long)ones, (long long)zeros,
         (long long)(count - ones - zeros));
  return ones + zeros == count;
}

int main(int argc, char **argv) {
  if (argc < 2) die("usage: launch FILE.ptx NAME=N...");
  for (int i = 2; i < argc; ++i) {
    char name[64];
    long long value;
    if (sscanf(argv[i], "%63[a-z_]=%lld", name, &value) != 2) die("expected NAME=N, got '%s'", argv[i]);
    set(name, value);
  }

  char *ptx = readFile(argv[1]);
  cJSON *manifest = readManifest(ptx);
  loadDriver();
  openDevice(field(manifest, "target"));
  makeArguments(manifest);

  const cJSON *item;
  cJSON_ArrayForEach(item, field(manifest, "requires")) {
    if (!evaluate(field(item, "that"))) die("%s", textField(item, "message"));
  }

  void *module;
  check(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL), "cuModuleLoadDataEx");
  /* Some kernels want their workspace to be zero, and leave it so. */
  DevicePointer workspace;
  size_t bytes = (size_t)evaluate(field(field(manifest, "workspace"), "bytes")) + 1;
  check(cuMemAlloc(&workspace, bytes), "cuMemAlloc");
  check(cuMemsetD8(workspace, 0, bytes), "cuMemsetD8");
  cJSON_ArrayForEach(item, field(manifest, "launches")) { launchKernel(item, module, workspace); }

  bool right = judge();
  cJSON_Delete(manifest);
  free(ptx);
  return right ? 0 : 1;
}

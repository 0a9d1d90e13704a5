/*===- fa2rt.h - load and launch the kernels that fa2 emits ------*- C -*-===*\
|*
|* The C interface of the fa2 runtime. A PTX file from fa2-compile carries its
|* manifest (docs/manifest.md); this library reads it, loads the kernels on a
|* device and launches them with arguments passed by name.
|*
|*   fa2rtDevice *device;  fa2rtProgram *program;
|*   fa2rtDeviceOpen("cuda", &device);
|*   fa2rtProgramLoad(device, ptx, strlen(ptx), NULL, 0, &program);
|*   int64_t shape[4] = {batch, seqlen, heads, 128};
|*   fa2rtArgument arguments[] = {
|*       fa2rtTensor("q", q, FA2RT_BF16, 4, shape, NULL), ...};
|*   fa2rtLaunch(program, arguments, count, workspace, bytes, stream);
|*
|* Errors: every function that can fail returns a status; the text of the
|* calling thread's last failure is at fa2rtLastError(). A refusal names the
|* field, its value and the limit, and nothing has been launched then.
|*
|* Threads: a device and a program may be used by several threads at once.
|* Closing or unloading must not overlap any other use of the same handle.
|*
|* Contexts (CUDA): calls work in the calling thread's current context when it
|* belongs to the handle's device, else in the device's primary context, which
|* the library then makes current for the call only.
\*===----------------------------------------------------------------------===*/
#ifndef FA2RT_FA2RT_H
#define FA2RT_FA2RT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define FA2RT_API
#else
#define FA2RT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*--- Status -----------------------------------------------------------------*/

typedef enum fa2rtStatus {
  FA2RT_OK = 0,
  /* An argument, shape, stride, scalar, option or handle is refused. */
  FA2RT_ERROR_ARGUMENT = 1,
  /* The PTX has no manifest, or a newer or broken one. */
  FA2RT_ERROR_MANIFEST = 2,
  /* No driver or device, or one that the program cannot run on. */
  FA2RT_ERROR_DEVICE = 3,
  /* A driver call failed; the text has the call and the driver's words. */
  FA2RT_ERROR_DRIVER = 4,
  /* The simulator's checks reported something; the text has the reports. */
  FA2RT_ERROR_SIMULATOR = 5,
  /* Host or device memory ran out. */
  FA2RT_ERROR_MEMORY = 6,
  /* A fault of this library. */
  FA2RT_ERROR_INTERNAL = 7,
  /* fa2rtPreparedLaunchObjects alone: no layout is the objects'. */
  FA2RT_ERROR_LAYOUT = 8
} fa2rtStatus;

/* The text of this thread's last failed call; "" when none failed. Valid until
   the thread's next failing call. */
FA2RT_API const char *fa2rtLastError(void);

/* This library's version, such as "0.1.0". */
FA2RT_API const char *fa2rtVersion(void);

/* The newest manifest version that this library reads. */
FA2RT_API int32_t fa2rtManifestVersion(void);

/*--- Devices ----------------------------------------------------------------*/

typedef struct fa2rtDevice fa2rtDevice;

/* Opens a device by name:
     "cuda"            the device of the current CUDA context, else device 0
     "cuda:1"          device 1 (as CUDA counts them)
     "sim"             the simulator, as an sm_80 device
     "sim:sm_90"       the simulator, as that device (sm_80, sm_90; sm_90a is
                       the same)
     "sim:sm_80?seed=3&resident=2&strict"
                       with options: seed=N (schedule of blocks and warps),
                       resident=N (blocks in flight; 0: as many as fit),
                       completion=random|early|late (of async copies), strict
                       (warnings are errors), separate (arguments lie in
                       memory of fa2rtMemoryAllocate, as on a GPU; else any
                       host memory does), nochecks, budget=N (warp
                       instructions), sms=N (multiprocessors: a few let
                       persistent kernels take several tiles a block), profile
                       (for fa2rtProgramProfile). */
FA2RT_API fa2rtStatus fa2rtDeviceOpen(const char *name, fa2rtDevice **device);

/* Closes a device. Its memory must not be used any more; its programs and
   events keep what they need until they are unloaded and destroyed. NULL is
   allowed. */
FA2RT_API void fa2rtDeviceClose(fa2rtDevice *device);

/* Whether this library was built with the simulator: 1 or 0. */
FA2RT_API int32_t fa2rtHasSimulator(void);

/* The driver's CUDA version as cuDriverGetVersion gives it (13000 for 13.0).
   Fails with FA2RT_ERROR_DEVICE when there is no driver. */
FA2RT_API fa2rtStatus fa2rtCudaDriverVersion(int32_t *version);

/* The number of CUDA devices. Fails when there is no driver. */
FA2RT_API fa2rtStatus fa2rtCudaDeviceCount(int32_t *count);

typedef struct fa2rtDeviceProperties {
  char name[128];                 /* "NVIDIA H200", "simulated sm_80" */
  int32_t is_simulated;           /* 1 or 0 */
  int32_t compute_capability;     /* 90 for 9.0 */
  int32_t multiprocessors;        /* count */
  int32_t driver_version;         /* 13000 for CUDA 13.0; 0 when simulated */
  int64_t l2_bytes;               /* size of the L2 cache */
  int64_t shared_bytes_per_block; /* most a block can opt in to */
  int64_t memory_bytes;           /* device memory; 0 when simulated */
  int32_t ordinal;                /* as CUDA counts them; -1 when simulated */
} fa2rtDeviceProperties;

FA2RT_API fa2rtStatus fa2rtDeviceGetProperties(
    fa2rtDevice *device, fa2rtDeviceProperties *properties);

/*--- Programs ---------------------------------------------------------------*/

typedef struct fa2rtProgram fa2rtProgram;

/* Reads the manifest of a PTX text, checks it against the device, and loads
   the kernels. `ptx` need not end in 0. `image`, when not NULL, is a cubin of
   the same PTX (ptxas -o), loaded in place of the driver's compilation; the
   manifest still comes from the PTX. Both may be freed afterwards. A CUDA
   program loads once for each context it is launched in, on first use there:
   load or launch once before capturing a graph in another context. A kernel
   that a guard chooses (see docs/manifest.md) is compiled by the driver when a
   launch or fa2rtPrepare first takes it, which may be in a captured stream. */
FA2RT_API fa2rtStatus fa2rtProgramLoad(fa2rtDevice *device, const char *ptx,
                                       size_t ptx_bytes, const void *image,
                                       size_t image_bytes,
                                       fa2rtProgram **program);

/* Unloads a program; no launch of it may be pending. NULL is allowed. */
FA2RT_API void fa2rtProgramUnload(fa2rtProgram *program);

/* Reads and checks the manifest alone; needs no device. */
FA2RT_API fa2rtStatus fa2rtManifestCheck(const char *ptx, size_t ptx_bytes);

/* The manifest's JSON text, 0-terminated, owned by the program. */
FA2RT_API const char *fa2rtProgramManifest(const fa2rtProgram *program);

typedef enum fa2rtDType {
  FA2RT_BF16 = 1,
  FA2RT_F16 = 2,
  FA2RT_F32 = 3,
  FA2RT_I32 = 4,
  FA2RT_I64 = 5 /* scalars only */
} fa2rtDType;

typedef enum fa2rtDirection {
  FA2RT_IN = 1,
  FA2RT_OUT = 2,
  FA2RT_INOUT = 3
} fa2rtDirection;

enum { FA2RT_MAX_RANK = 8 };

typedef struct fa2rtArgumentInfo {
  const char *name;  /* owned by the program */
  int32_t is_tensor; /* 1: tensor, 0: scalar */
  fa2rtDType dtype;
  fa2rtDirection direction;         /* scalars: FA2RT_IN */
  int32_t is_optional;              /* may be left out of a launch */
  int32_t rank;                     /* tensors */
  int64_t extents[FA2RT_MAX_RANK];  /* a required extent, or -1 */
  const char *dims[FA2RT_MAX_RANK]; /* the dimension's name, or NULL */
  int64_t alignment;                /* of the base address, bytes */
  int64_t stride_multiple; /* elements; rows of outputs own their memory
                              up to such a multiple, and it is written */
  double default_value;    /* scalars that are optional */
} fa2rtArgumentInfo;

FA2RT_API int32_t fa2rtProgramArgumentCount(const fa2rtProgram *program);
FA2RT_API fa2rtStatus fa2rtProgramGetArgument(const fa2rtProgram *program,
                                              int32_t index,
                                              fa2rtArgumentInfo *info);

typedef struct fa2rtKernelInfo {
  const char *name;             /* owned by the program */
  int32_t threads;              /* a block */
  int64_t dynamic_shared_bytes; /* a block, from the manifest */
  /* From the driver; -1 where the device does not know, and of a kernel that a
     guard chooses before a launch has taken it. */
  int32_t registers;           /* a thread */
  int64_t local_bytes;         /* a thread: spills and stack */
  int64_t static_shared_bytes; /* a block */
} fa2rtKernelInfo;

FA2RT_API int32_t fa2rtProgramKernelCount(const fa2rtProgram *program);
FA2RT_API fa2rtStatus fa2rtProgramGetKernel(const fa2rtProgram *program,
                                            int32_t index,
                                            fa2rtKernelInfo *info);

/*--- Launching --------------------------------------------------------------*/

/* One argument of a launch; make it with one of the three functions below. */
typedef struct fa2rtArgument {
  const char *name;
  int32_t is_tensor;
  int32_t dtype;          /* tensors: a fa2rtDType; others are refused */
  int32_t rank;           /* tensors */
  int32_t is_integer;     /* scalars: `integer` holds the value, else `real` */
  void *data;             /* tensors: the address of element [0, ..., 0] */
  const int64_t *shape;   /* tensors: `rank` extents */
  const int64_t *strides; /* tensors: `rank` strides in elements; NULL: packed,
                             last dimension innermost */
  double real;
  int64_t integer;
} fa2rtArgument;

/* A tensor. `shape` and `strides` are read during the call it is passed to. */
static inline fa2rtArgument fa2rtTensor(const char *name, void *data,
                                        int32_t dtype, int32_t rank,
                                        const int64_t *shape,
                                        const int64_t *strides) {
  fa2rtArgument a = {name, 1, dtype, rank, 0, data, shape, strides, 0.0, 0};
  return a;
}

/* A scalar of a floating-point dtype. */
static inline fa2rtArgument fa2rtReal(const char *name, double value) {
  /* NOLINTNEXTLINE(modernize-use-nullptr): this is C too. */
  fa2rtArgument a = {name, 0, FA2RT_F32, 0, 0, NULL, NULL, NULL, value, 0};
  return a;
}

/* A scalar of an integer dtype. */
static inline fa2rtArgument fa2rtInteger(const char *name, int64_t value) {
  /* NOLINTNEXTLINE(modernize-use-nullptr): this is C too. */
  fa2rtArgument a = {name, 0, FA2RT_I64, 0, 1, NULL, NULL, NULL, 0.0, value};
  return a;
}

/* Whether a launch with these arguments runs the kernel of that index: 1 or 0.
   A program may hold several kernels for one purpose, each with a guard over
   lengths, heads and the device. Tensors' data pointers are not looked at. */
FA2RT_API fa2rtStatus fa2rtKernelRuns(const fa2rtProgram *program,
                                      int32_t index,
                                      const fa2rtArgument *arguments,
                                      size_t count, int32_t *runs);

/* The bytes of workspace that a launch with these arguments needs (often 0),
   and the alignment of its address. Tensors' data pointers are not looked at
   and may be NULL. `alignment` may be NULL. */
FA2RT_API fa2rtStatus fa2rtWorkspaceSize(const fa2rtProgram *program,
                                         const fa2rtArgument *arguments,
                                         size_t count, size_t *bytes,
                                         size_t *alignment);

/* Whether the workspace must hold zeros: 1 or 0. If it must, the caller zeroes
   it once, before its first launch; every launch leaves zeros where launches
   count on them, so those of one stream share it. Streams that run at once need
   one each. */
FA2RT_API int32_t fa2rtWorkspaceZeroed(const fa2rtProgram *program);

/* Launches the program's kernels whose guards hold, in order on `stream` (a
   CUstream or cudaStream_t; NULL: the default stream; ignored by the
   simulator). Asynchronous; allocates no device memory; makes no synchronising
   call, so that a CUDA graph can capture it; may be called from several threads
   and on several streams at once. Checks everything before the first kernel
   starts; an address of host memory that the device does not reach is refused.
   `workspace` is device memory of at least fa2rtWorkspaceSize() bytes,
   used until the launch has finished on the stream; NULL when it needs none. */
FA2RT_API fa2rtStatus fa2rtLaunch(const fa2rtProgram *program,
                                  const fa2rtArgument *arguments, size_t count,
                                  void *workspace, size_t workspace_bytes,
                                  void *stream);

/*--- Launching often --------------------------------------------------------*/

/* A launch whose arguments are bound: names are resolved, dtypes, shapes,
   strides and scalars checked, guards, grids and workspace evaluated. What is
   left to each launch is the addresses.

     fa2rtPrepared *prepared;
     fa2rtPrepare(program, arguments, 5, &prepared);
     void *addresses[5] = {q, k, v, out, lse};
     fa2rtPreparedLaunch(prepared, addresses, 5, workspace, bytes, stream);

   Threads: a prepared launch never changes; any number of threads may launch it
   at once, on any streams, each with addresses of its own. */
typedef struct fa2rtPrepared fa2rtPrepared;

/* Prepares a launch; refuses what fa2rtLaunch would refuse of everything but
   addresses. Tensors' data pointers may be NULL; others that are host memory
   which the device does not reach are refused. Nothing of `arguments` is needed
   afterwards. Free it before its program is unloaded. */
FA2RT_API fa2rtStatus fa2rtPrepare(const fa2rtProgram *program,
                                   const fa2rtArgument *arguments, size_t count,
                                   fa2rtPrepared **prepared);

/* NULL is allowed. Must not overlap any other use of the handle. */
FA2RT_API void fa2rtPreparedFree(fa2rtPrepared *prepared);

/* The bytes of workspace that each launch needs; 0 for NULL. */
FA2RT_API size_t fa2rtPreparedWorkspaceSize(const fa2rtPrepared *prepared);

/* Launches as fa2rtLaunch does, on tensors of the shapes and strides that were
   prepared: addresses[i] is that of argument i of fa2rtPrepare (of a scalar:
   anything), `count` what it was there. Each address is checked for alignment
   and null, but the driver is not asked whose memory it is, so that a kernel
   faults on a host address given here. Tensor maps are encoded where a tensor's
   address is a new one. Where a kernel is chosen by how an address lies (mod 16
   bytes), and one lies otherwise than what was prepared, the launch costs what
   preparing it would. */
FA2RT_API fa2rtStatus fa2rtPreparedLaunch(const fa2rtPrepared *prepared,
                                          void *const *addresses, size_t count,
                                          void *workspace,
                                          size_t workspace_bytes, void *stream);

/*--- Launching from Python --------------------------------------------------*/

/* What stays the same from call to call of objects of Python's. This library
   links neither Python nor what makes the tensors: the functions that it needs
   of them come by address. */
typedef struct fa2rtObjectCall {
  /* PyDict_Next: the next key and value of a dict, borrowed; 0 at its end. */
  int (*next)(void *dict, ptrdiff_t *position, void **key, void **value);
  /* dltensor_from_py_object_no_sync of a DLPackExchangeAPI whose major version
     is 1: fills a DLTensor and returns 0; else the object is no tensor. */
  int (*read)(void *object, void *dl_tensor);
  /* PyEval_SaveThread and PyEval_RestoreThread, around the launch alone, so
     that a driver whose queue is full stops no other thread of Python, one that
     the queue waits for among them. Both may be NULL. */
  void *(*release)(void);
  void (*acquire)(void *state);
  /* The dict's keys in their order, by identity. */
  void *const *names;
  size_t count;
  /* What the values may be, the likeliest first: launches that were prepared of
     as many arguments, in the order of the names. They outlive the call. */
  const fa2rtPrepared *const *prepared;
  size_t prepared_count;
  size_t workspace_bytes;
  /* Not 0: objects of rank 4 are [batch, heads, seqlen, d], what was prepared
     [batch, seqlen, heads, d]. */
  int32_t heads_first;
} fa2rtObjectCall;

/* Reads the tensors of a dict, such as a call's arguments by name, and
   launches, as fa2rtPreparedLaunch does at their addresses, the first of the
   prepared launches that has their dtypes, shapes and strides, if they lie on
   its device. Scalars are not looked at: that they have the prepared values is
   the caller's to know. Where the names are others, no layout is the tensors',
   or an object cannot be read, FA2RT_ERROR_LAYOUT is returned and nothing is
   launched; Python's exception may be set then. The calling thread holds what
   `release` releases (Python's lock). */
FA2RT_API fa2rtStatus fa2rtPreparedLaunchObjects(const fa2rtObjectCall *call,
                                                 void *dict, void *workspace,
                                                 void *stream);

/*--- For tools: memory, timing, profiles ------------------------------------
  Nothing below is needed by a program that has its own memory and streams;
  fa2rtLaunch uses none of it. */

FA2RT_API fa2rtStatus fa2rtMemoryAllocate(fa2rtDevice *device, size_t bytes,
                                          void **memory);
FA2RT_API fa2rtStatus fa2rtMemoryFree(fa2rtDevice *device, void *memory);
/* Synchronous copies between host and device memory. On the simulator any host
   memory serves as device memory; of what was allocated on it the bounds are
   checked. */
FA2RT_API fa2rtStatus fa2rtMemoryCopyIn(fa2rtDevice *device, void *to,
                                        const void *from_host, size_t bytes);
FA2RT_API fa2rtStatus fa2rtMemoryCopyOut(fa2rtDevice *device, void *to_host,
                                         const void *from, size_t bytes);
/* Sets every byte to the low 8 bits of `value`. */
FA2RT_API fa2rtStatus fa2rtMemorySet(fa2rtDevice *device, void *memory,
                                     int32_t value, size_t bytes);
/* Waits for all work of the device's context. */
FA2RT_API fa2rtStatus fa2rtDeviceSynchronize(fa2rtDevice *device);

typedef struct fa2rtEvent fa2rtEvent;

FA2RT_API fa2rtStatus fa2rtEventCreate(fa2rtDevice *device, fa2rtEvent **event);
FA2RT_API void fa2rtEventDestroy(fa2rtEvent *event);
FA2RT_API fa2rtStatus fa2rtEventRecord(fa2rtEvent *event, void *stream);
/* Waits for `stop`; milliseconds between the two on the device that both are
   of. */
FA2RT_API fa2rtStatus fa2rtEventElapsed(fa2rtEvent *start, fa2rtEvent *stop,
                                        float *milliseconds);

/* Launches once untimed, then `repeats` times back to back, and writes each
   launch's time on the device to milliseconds[0 .. repeats). The stream is held
   until the host has queued everything, so that no host time is in the figures.
   Synchronous. */
FA2RT_API fa2rtStatus fa2rtMeasure(const fa2rtProgram *program,
                                   const fa2rtArgument *arguments, size_t count,
                                   void *workspace, size_t workspace_bytes,
                                   void *stream, int32_t repeats,
                                   float *milliseconds);

/* The same with several lists of `count` arguments, which launches take in
   turn, launch i that of set i % set_count: where the sets' tensors together
   are larger than twice the L2 cache, no launch finds its own in it. All use
   one workspace, as large as the set that needs most of it asks for. */
FA2RT_API fa2rtStatus fa2rtMeasureInTurn(const fa2rtProgram *program,
                                         const fa2rtArgument *const *sets,
                                         size_t set_count, size_t count,
                                         void *workspace,
                                         size_t workspace_bytes, void *stream,
                                         int32_t repeats, float *milliseconds);

/* The simulator's profile of this program's last launch that ran kernels, as
   JSON text (instructions by class, bytes moved, bank conflicts), owned by the
   calling thread until its next call of this function. Fails on other devices
   and before such a launch. */
FA2RT_API fa2rtStatus fa2rtProgramProfile(const fa2rtProgram *program,
                                          const char **json);

#ifdef __cplusplus
}
#endif

#endif /* FA2RT_FA2RT_H */

/* clang-format off */
/*===- fa2.h - the compiler's C interface ----------------------------------===*
 *
 * Compiles a specification to PTX, for programs that embed the compiler. Needs
 * neither a GPU nor a driver. The PTX begins with its manifest; the runtime
 * (fa2rt/fa2rt.h), or any launcher that reads the manifest, runs it.
 *
 *   #include <fa2/fa2.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     fa2_compilation *c =
 *         fa2_compile("arch=sm_90a dtype=bf16 head_dim=128 mask=causal");
 *     if (fa2_compilation_ok(c))
 *       fwrite(fa2_compilation_text(c), 1, fa2_compilation_size(c), stdout);
 *     else
 *       fprintf(stderr, "%s\n", fa2_compilation_error(c));
 *     int status = fa2_compilation_ok(c) ? 0 : 1;
 *     fa2_compilation_free(c);
 *     return status;
 *   }
 *
 * Every function is safe from several threads at once.
 *
 *===----------------------------------------------------------------------===*/
/* clang-format on */
#ifndef FA2_FA2_H
#define FA2_FA2_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FA2_API __attribute__((visibility("default")))
#else
#define FA2_API
#endif

typedef struct fa2_compilation fa2_compilation;

/* "0.1.0" */
FA2_API const char *fa2_version(void);

/* clang-format off */
/* Compiles. `specification` is a list of key=value, separated by blanks or
 * commas. What to compute:
 *
 *   pass            forward or backward
 *   arch            sm_80, which it and every later GPU runs; sm_90a, the
 *                   faster on H100 and H200, which they alone run; and others
 *                   that an error lists
 *   dtype           bf16 or f16
 *   head_dim        of q and k: a multiple of 8 from 8 to 256
 *   head_dim_v      of v and out: likewise; that of q by default
 *   mask            none, causal (bottom right), causal_top_left or
 *                   strictly_causal (bottom right, without the diagonal)
 *   softcap         caps scores, c tanh(score / c): c, or argument to give it
 *                   at the launch (softcap)
 *   alibi           head: adds slope (key - query), slopes [heads] of f32
 *   bias            adds a tensor (bias) of dtype: key [batch, seqlen_k], query
 *                   [batch, seqlen_q], head [heads], head_key [batch, heads,
 *                   seqlen_k] or full [batch, heads, seqlen_q, seqlen_k]
 *   sink            head: one more score of each row, which has no value, sink
 *                   [heads] of f32
 *   dropout         argument: drops elements of the softmax, with probability
 *                   dropout, by numbers of rng, i32 [4]: seed and offset
 *   grads           backward: gradients of what scores read too, in single
 *                   quotes: 'bias,slopes,sink' (dbias, dslopes, dsink)
 *   grad_lse        argument: backward takes a gradient of lse too (dlse)
 *   dq              how backward sums dQ: atomic, atomic_v4, or, for the same
 *                   bits in every run, ordered, recompute or deterministic, the
 *                   faster of both
 *
 * The schedule, what is left out being chosen (`fa2-compile --help` says what
 * its fields are):
 *
 *   schedule        fields, in single quotes: 'block_q=64,warps=4'; each is a
 *                   key of its own too: block_q=64 warps=4
 *   variants        none, or other schedules where a guard holds, in single
 *                   quotes: 'seqlen_k <= 512: block_q=128,warps=8; ...'
 *   database        a file of measured schedules in place of the shipped ones, or
 *                   none
 *
 * What was compiled is kept on disk, by all that it follows from, the build of
 * the compiler among it; any number of processes may share the folder. Where
 * the folder is full, the least recently used goes; a damaged file is compiled
 * again. Whatever is wrong with the folder, the compilation works, and a line
 * of the explanation that begins with "cache: " says it.
 *
 *   cache           the folder, or none. By default FA2_CACHE_DIR of the
 *                   environment, else fa2c in XDG_CACHE_HOME or ~/.cache;
 *                   FA2_CACHE=0 keeps nothing, FA2_CACHE_MB (512) is the
 *                   folder's limit
 *
 * Never returns null unless memory is out; the result says whether it
 * worked. */
/* clang-format on */
FA2_API fa2_compilation *fa2_compile(const char *specification);

/* Compiles the one fa2.attention of an MLIR module's text, such as one with a
 * score program, which no specification can say; `pass=backward` derives its
 * gradients. What the operation says itself (dtype, head dims, mask) is not in
 * `specification`. Errors in the module begin with its line. Never returns null
 * unless memory is out. */
FA2_API fa2_compilation *fa2_compile_module(const char *module,
                                            const char *specification);

/* Chooses schedules, in milliseconds, and compiles nothing. The text's first
 * line has the fields of the schedule, as the key `schedule` takes them; each
 * other line has a guard, ": " and the fields of a variant. With
 * `variants=none` and the fields of one of them, what is compiled is the kernel
 * of it alone: for launches where its guard holds and none before it does, or,
 * of the first line, where none holds, it gives the bits that the whole program
 * gives. `module` is as above, or null. */
FA2_API fa2_compilation *fa2_schedules(const char *module,
                                       const char *specification);

/* Where kernels are kept that a specification says no more of than `cache`: the
 * text's first line is the folder, its second what is in it, "12 of at most 512
 * MB". No text where nothing is kept. */
FA2_API fa2_compilation *fa2_cache(const char *specification);

/* 1 where there is a text, 0 where there is an error. Null counts as an error.
 */
FA2_API int fa2_compilation_ok(const fa2_compilation *compilation);
/* 1 where it was read from the cache. */
FA2_API int fa2_compilation_cached(const fa2_compilation *compilation);
/* The PTX, terminated by a 0 byte, and its size without that byte. Empty on
 * error. Lives as long as the compilation. */
FA2_API const char *fa2_compilation_text(const fa2_compilation *compilation);
FA2_API size_t fa2_compilation_size(const fa2_compilation *compilation);
/* The error: one line that names the field, its value and what is supported.
 * Empty where it worked. */
FA2_API const char *fa2_compilation_error(const fa2_compilation *compilation);
/* The schedule and its reasons, line by line. */
FA2_API const char *
fa2_compilation_explanation(const fa2_compilation *compilation);
FA2_API void fa2_compilation_free(fa2_compilation *compilation);

#ifdef __cplusplus
}
#endif

#endif

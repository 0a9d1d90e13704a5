/* Compiles a kernel with the one library and lets the other read it. */
#include <fa2/fa2.h>
#include <fa2rt/fa2rt.h>
#include <stdio.h>

int main(void) {
  fa2_compilation *c = fa2_compile("head_dim=64 mask=causal");
  if (!fa2_compilation_ok(c)) {
    fprintf(stderr, "%s\n", fa2_compilation_error(c));
    return 1;
  }
  printf("compiled %zu bytes with fa2 %s, runtime %s\n",
         fa2_compilation_size(c), fa2_version(), fa2rtVersion());
  fa2_compilation_free(c);
  return 0;
}

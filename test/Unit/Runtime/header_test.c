/* fa2rt.h is a C header: this file is compiled as C99. */
#include "fa2rt/fa2rt.h"

#include <stdio.h>
#include <string.h>

int main(void) {
  int64_t shape[2] = {3, 4};
  fa2rtArgument tensor = fa2rtTensor("q", NULL, FA2RT_F16, 2, shape, NULL);
  fa2rtArgument real = fa2rtReal("scale", 0.5);
  fa2rtArgument integer = fa2rtInteger("splits", 3);
  fa2rtDevice *device = NULL;
  if (!tensor.is_tensor || tensor.rank != 2 || tensor.dtype != FA2RT_F16)
    return 1;
  if (real.is_tensor || real.real != 0.5 || integer.integer != 3)
    return 2;
  if (fa2rtDeviceOpen("nonsense", &device) != FA2RT_ERROR_ARGUMENT || device)
    return 3;
  if (!strstr(fa2rtLastError(), "nonsense"))
    return 4;
  printf("fa2rt %s\n", fa2rtVersion());
  return fa2rtManifestVersion() == 4 ? 0 : 5;
}

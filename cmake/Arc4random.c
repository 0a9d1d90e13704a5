/* libstdc++'s random_device calls arc4random, which glibc has since 2.36. With
   this one, a wheel runs on 2.35 too. */
#include <stdint.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  /* Of four bytes there is never less, and nothing to wait for after boot. */
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

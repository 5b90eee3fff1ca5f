/* A function for every other name of the driver and the runtime: it reports that it is not supported. */
#include "names.h"
#include "state.h"

#define STUB(name) __attribute__((weak, visibility("default"))) Result name(void); __attribute__((weak, visibility("default"))) Result name(void) { return unsupported(#name); }
DRIVER_NAMES(STUB)
RUNTIME_NAMES(STUB)

/* digits: a program without Python, written by Wengert 0.1.0 for x86_64-linux.
   It calls nothing: no memory is allocated, no thread is started, no file is read. */
#ifndef DIGITS_H
#define DIGITS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIGITS_BYTES 256
#define DIGITS_WEIGHTS_BYTES 9640
#define DIGITS_X_SIZE 64 /* float32 (1, 64) */
#define DIGITS_RESULT_SIZE 10 /* float32 (1, 10) */

/* Arrays are contiguous in C order, aligned as their elements are, and share no memory. */
typedef struct {
    const void *weights; /* the data of weights.safetensors: what follows its header */
    void *memory; /* DIGITS_BYTES of memory, aligned to 64 bytes; what is in it is lost between calls */
    const float *x; /* float32 (1, 64) */
    float *result; /* float32 (1, 10) */
} digits_call;

/* Computes the outputs. Any number of threads may be in it, each with memory and state of its own.
   Returns 0, or what digits_error says: then the state is as it was, and the outputs mean nothing. */
int digits_run(const digits_call *call);

/* Says what a number means that is returned; a null pointer for none. */
static inline const char *digits_error(int code) {
    switch (code) {
    case -1: return "memory is not aligned to 64 bytes";
    case -2: return "a field of the call is a null pointer";
    default: return 0;
    }
}

#ifdef __cplusplus
}
#endif
#endif

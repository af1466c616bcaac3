/* Runs digits. Build it where the files of this folder are:

       cc -o digits main.c digits*.o

   ./digits                     runs on zeros and prints the first numbers of each output
   ./digits IN OUT [RUNS]       reads the inputs, one after the other, from the file IN (`-`: zeros), runs so many times
                            (once), and writes the outputs, one after the other, to the file OUT
*/
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

static _Alignas(64) unsigned char weights_bytes[DIGITS_WEIGHTS_BYTES];
static _Alignas(64) unsigned char memory_bytes[DIGITS_BYTES];
static float x_array[64];
static float result_array[10];

static void stop(const char *what, const char *which) {
    fprintf(stderr, "%s %s\n", what, which);
    exit(1);
}

static void stop_on(int code) {
    const char *text = digits_error(code);
    if (code != 0) stop("digits stopped:", text ? text : "an unknown number");
}

/* Reads the data of a safetensors file: eight bytes say how long the header is that stands before it. */
static inline void read_weights(const char *path, void *to, size_t size) {
    unsigned char length[8];
    long skip = 0;
    FILE *file = fopen(path, "rb");
    if (!file) stop("there is no file", path);
    if (fread(length, 1, 8, file) != 8) stop("this file is cut off:", path);
    for (int i = 3; i >= 0; i--) skip = skip * 256 + length[i];
    if (fseek(file, 8 + skip, SEEK_SET) || fread(to, 1, size, file) != size || fgetc(file) != EOF)
        stop("this file has another size:", path);
    fclose(file);
}

int main(int count, char **arguments) {
    static digits_call call;
    int runs = count > 3 ? atoi(arguments[3]) : 1;
    read_weights("weights.safetensors", weights_bytes, DIGITS_WEIGHTS_BYTES);
    call.weights = weights_bytes;
    call.memory = memory_bytes;
    call.x = x_array;
    call.result = result_array;

    if (count > 2 && (arguments[1][0] != '-' || arguments[1][1])) {
        const char *path = arguments[1];
        FILE *file = fopen(path, "rb");
        if (!file) stop("there is no file", path);
        if (fread(x_array, sizeof x_array[0], DIGITS_X_SIZE, file) != DIGITS_X_SIZE)
            stop("the inputs are not in this file:", path);
        fclose(file);
    }
    for (int i = 0; i < runs; i++) stop_on(digits_run(&call));
    if (count > 2) {
        const char *path = arguments[2];
        FILE *file = fopen(path, "wb");
        if (!file) stop("this file cannot be written:", path);
        if (fwrite(result_array, sizeof result_array[0], DIGITS_RESULT_SIZE, file) != DIGITS_RESULT_SIZE)
            stop("the outputs do not go to this file:", path);
        fclose(file);
        return 0;
    }
    printf("result:");
    for (int i = 0; i < DIGITS_RESULT_SIZE && i < 8; i++) printf(" %.7g", (double)result_array[i]);
    printf(DIGITS_RESULT_SIZE > 8 ? " ...\n" : "\n");
    return 0;
}

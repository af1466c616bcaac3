"""The texts of an exported program in C: its header, and a program that runs it."""

from __future__ import annotations

from string import Template

from ..core.spec import Spec
from ..execute.native.plan.plan import ALIGN
from ..version import __version__
from .built import Built, Field
from .module import NO_POINTER, NOT_ALIGNED

# The types of C by dtypes; others are held as integers of their size.
_TYPES = {
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
    **{f"{sign}int{n}": f"{sign}int{n}_t" for sign in ("", "u") for n in (8, 16, 32, 64)},
}


def _type(spec: Spec) -> str:
    return _TYPES.get(spec.dtype.name, f"uint{8 * spec.dtype.itemsize}_t")


def _told(spec: Spec) -> str:
    """Return the dtype and the shape of an array as words of a comment."""
    pairs = ", pairs" if spec.dtype.kind == "c" else ""
    return f"{spec.dtype.name} ({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''}){pairs}"


def _count(spec: Spec) -> int:
    """Return the number of elements of C's type."""
    return spec.size * (2 if spec.dtype.kind == "c" else 1)


_ABOUT = {
    "weights": ("const void *", "the data of weights.safetensors: what follows its header"),
    "state": ("void *", "the data of state.safetensors, which a call reads and writes"),
    "ready": ("void *", "weights laid out for this processor, filled by {name}_prepare"),
    "memory": ("void *", "{big}_BYTES of memory, aligned to {align} bytes; what is in it is lost between calls"),
}


def header(built: Built) -> str:
    """Return the header."""
    name, big = built.name, built.name.upper()
    sizes = [f"#define {big}_BYTES {built.nbytes}"]
    sizes += [f"#define {big}_WEIGHTS_BYTES {built.weights.nbytes}"] if built.weights.nbytes else []
    sizes += [f"#define {big}_STATE_BYTES {built.state.nbytes}"] if built.state.nbytes else []
    sizes += [f"#define {big}_READY_BYTES {built.ready}"] if built.ready else []
    members = []
    for f in built.fields:
        if f.value is None:
            kind, about = _ABOUT[f.role]
            text = about.format(name=name, big=big, align=ALIGN)
            members.append(f"    {kind}{f.name}; /* {text} */")
            continue
        const = "const " if f.role == "input" else ""
        members.append(f"    {const}{_type(f.value.spec)} *{f.name}; /* {_told(f.value.spec)} */")
        sizes.append(f"#define {big}_{f.name.upper()}_SIZE {_count(f.value.spec)} /* {_told(f.value.spec)} */")
    functions = [_PREPARE.substitute(name=name)] if built.ready else []
    functions.append(_RUN.substitute(name=name))
    cases = "".join(f"    case {i + 1}: return {_quoted(text)};\n" for i, text in enumerate(built.errors))
    return _HEADER.substitute(
        name=name,
        big=big,
        version=__version__,
        target=built.platform.name,
        sizes="\n".join(sizes),
        members="\n".join(members),
        functions="\n".join(functions),
        cases=cases,
        not_aligned=NOT_ALIGNED,
        no_pointer=NO_POINTER,
        align=ALIGN,
    )


def _quoted(text: str) -> str:
    """Return a text as C writes it: bytes that are not printable by their numbers."""
    shown = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92, 63) else f"\\{b:03o}" for b in text.encode())
    return f'"{shown}"'


_PREPARE = Template("""/* Lays weights out for this processor, once, before the first run.
   It needs weights, ready and memory. */
int ${name}_prepare(const ${name}_call *call);
""")
_RUN = Template("""/* Computes the outputs. Any number of threads may be in it, each with memory and state of its own.
   Returns 0, or what ${name}_error says: then the state is as it was, and the outputs mean nothing. */
int ${name}_run(const ${name}_call *call);""")
_HEADER = Template("""/* $name: a program without Python, written by Wengert $version for $target.
   It calls nothing: no memory is allocated, no thread is started, no file is read. */
#ifndef ${big}_H
#define ${big}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

$sizes

/* Arrays are contiguous in C order, aligned as their elements are, and share no memory. */
typedef struct {
$members
} ${name}_call;

$functions

/* Says what a number means that is returned; a null pointer for none. */
static inline const char *${name}_error(int code) {
    switch (code) {
$cases    case $not_aligned: return "memory is not aligned to $align bytes";
    case $no_pointer: return "a field of the call is a null pointer";
    default: return 0;
    }
}

#ifdef __cplusplus
}
#endif
#endif
""")


def main(built: Built) -> str:
    """Return a program that runs it: on zeros, or on inputs from a file."""
    name, big = built.name, built.name.upper()
    arrays, fills, sets = [], [], []
    for f in built.fields:
        size = {
            "weights": f"{big}_WEIGHTS_BYTES",
            "state": f"{big}_STATE_BYTES",
            "ready": f"{big}_READY_BYTES",
            "memory": f"{big}_BYTES",
        }.get(f.role)
        if size is not None:
            arrays.append(f"static _Alignas({ALIGN}) unsigned char {f.name}_bytes[{size}];")
            sets.append(f"    call.{f.name} = {f.name}_bytes;")
            if f.role in ("weights", "state"):
                fills.append(f'    read_weights("{f.role}.safetensors", {f.name}_bytes, {size});')
            continue
        assert f.value is not None
        arrays.append(f"static {_type(f.value.spec)} {f.name}_array[{max(1, _count(f.value.spec))}];")
        sets.append(f"    call.{f.name} = {f.name}_array;")
    inputs = [f for f in built.fields if f.role == "input"]
    outputs = [f for f in built.fields if f.role == "output"]
    return _MAIN.substitute(
        name=name,
        big=big,
        libraries=built.platform.libraries,
        arrays="\n".join(arrays),
        fills="\n".join(fills),
        sets="\n".join(sets),
        prepare=f"    stop_on({name}_prepare(&call));" if built.ready else "",
        reads="\n".join(_moved(f, "fread", "r", big) for f in inputs),
        writes="\n".join(_moved(f, "fwrite", "w", big) for f in outputs),
        shows="\n".join(_show(f, big) for f in outputs),
    )


def _moved(f: Field, function: str, verb: str, big: str) -> str:
    size = f"{big}_{f.name.upper()}_SIZE"
    what = {"r": "the inputs are not in", "w": "the outputs do not go to"}[verb]
    return (
        f"        if ({function}({f.name}_array, sizeof {f.name}_array[0], {size}, file) != {size})\n"
        f'            stop("{what} this file:", path);'
    )


def _show(f: Field, big: str) -> str:
    assert f.value is not None
    size = f"{big}_{f.name.upper()}_SIZE"
    shown, cast = ("%.7g", "(double)") if _type(f.value.spec) in ("float", "double") else ("%lld", "(long long)")
    return (
        f'    printf("{f.name}:");\n'
        f'    for (int i = 0; i < {size} && i < 8; i++) printf(" {shown}", {cast}{f.name}_array[i]);\n'
        f'    printf({size} > 8 ? " ...\\n" : "\\n");'
    )


_MAIN = Template("""/* Runs $name. Build it where the files of this folder are:

       cc -o $name main.c $name*.o$libraries

   ./$name                     runs on zeros and prints the first numbers of each output
   ./$name IN OUT [RUNS]       reads the inputs, one after the other, from the file IN (`-`: zeros), runs so many times
                            (once), and writes the outputs, one after the other, to the file OUT
*/
#include <stdio.h>
#include <stdlib.h>

#include "$name.h"

$arrays

static void stop(const char *what, const char *which) {
    fprintf(stderr, "%s %s\\n", what, which);
    exit(1);
}

static void stop_on(int code) {
    const char *text = ${name}_error(code);
    if (code != 0) stop("$name stopped:", text ? text : "an unknown number");
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
    static ${name}_call call;
    int runs = count > 3 ? atoi(arguments[3]) : 1;
$fills
$sets
$prepare
    if (count > 2 && (arguments[1][0] != '-' || arguments[1][1])) {
        const char *path = arguments[1];
        FILE *file = fopen(path, "rb");
        if (!file) stop("there is no file", path);
$reads
        fclose(file);
    }
    for (int i = 0; i < runs; i++) stop_on(${name}_run(&call));
    if (count > 2) {
        const char *path = arguments[2];
        FILE *file = fopen(path, "wb");
        if (!file) stop("this file cannot be written:", path);
$writes
        fclose(file);
        return 0;
    }
$shows
    return 0;
}
""")

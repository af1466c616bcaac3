// $name: a program without Python, written by Wengert $version. An ES module, for browsers and Node.
//
//     import { load } from "./$name.mjs";
//     const model = await load();
//     const { $result } = model.run({ $given });

export const INTERFACE = $interface;

const TYPES = {
  float32: Float32Array,
  float64: Float64Array,
  complex64: Float32Array,
  complex128: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
};
const ALIGN = 64;

export class ProgramError extends Error {}

const typeOf = (dtype) => TYPES[dtype] ?? Uint8Array; // other dtypes have one byte
const countOf = (value) => value.shape.reduce((a, b) => a * b, 1) * (value.dtype.startsWith("complex") ? 2 : 1);

// The arrays of a safetensors file, in one block of the program's memory.
class Block {
  constructor(memory, place, told, file) {
    this.bytes = new Uint8Array(memory.buffer, place, told.bytes);
    this.arrays = {};
    for (const one of told.arrays) {
      const type = typeOf(one.dtype);
      this.arrays[one.name] = new type(memory.buffer, place + one.place, countOf(one));
    }
    this.told = told;
    this.read(file);
  }

  read(file) {
    const wrong = (what) => new ProgramError("this file of arrays is not the program's: " + what);
    if (file.length < 8) throw wrong("it is too short");
    const start = 8 + Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    if (file.length !== start + this.told.bytes) throw wrong("it has another size");
    const head = JSON.parse(new TextDecoder().decode(file.subarray(8, start)));
    for (const one of this.told.arrays) {
      const found = head[one.name];
      if (!found || found.data_offsets[0] !== one.place) throw wrong(one.name + " is missing, or stands elsewhere");
      const bytes = found.data_offsets[1] - found.data_offsets[0];
      if (bytes !== this.arrays[one.name].byteLength) throw wrong(one.name + " has another size");
    }
    this.head = file.slice(0, start);
    this.bytes.set(file.subarray(start));
  }

  file() {
    const made = new Uint8Array(this.head.length + this.bytes.length);
    made.set(this.head);
    made.set(this.bytes, this.head.length);
    return made;
  }
}

// A program: `run` takes its inputs by name and gives its outputs by name. `weights` and `state` are arrays by name,
// the program's own: what is written to them counts from the next run on.
export class Model {
  // `files` are bytes: of the module (wasm), and of the safetensors files (weights, state) where there are any.
  constructor(files) {
    const module = files.module ?? new WebAssembly.Module(files.wasm);
    const { exports } = new WebAssembly.Instance(module);
    this.exports = exports;
    let end = exports.__heap_base.value;
    const take = (bytes) => {
      const place = Math.ceil(end / ALIGN) * ALIGN;
      end = place + bytes;
      return place;
    };
    const sizes = { weights: INTERFACE.weights.bytes, state: INTERFACE.state.bytes, ready: INTERFACE.ready };
    const places = {};
    this.fields = INTERFACE.fields.map((field) => {
      const bytes = field.shape ? countOf(field) * typeOf(field.dtype).BYTES_PER_ELEMENT
        : field.role === "memory" ? INTERFACE.memory : sizes[field.role];
      const place = take(bytes);
      places[field.role] = place;
      return { ...field, place };
    });
    this.call = take(4 * this.fields.length);
    const missing = end - exports.memory.buffer.byteLength;
    if (missing > 0 && exports.memory.grow(Math.ceil(missing / 65536)) < 0) throw new ProgramError("out of memory");
    const call = new Uint32Array(exports.memory.buffer, this.call, this.fields.length);
    this.fields.forEach((field, i) => (call[i] = field.place));
    const block = (role) =>
      sizes[role] ? new Block(exports.memory, places[role], INTERFACE[role], files[role]) : undefined;
    this.blocks = { weights: block("weights"), state: block("state") };
    this.weights = this.blocks.weights?.arrays ?? {};
    this.state = this.blocks.state?.arrays ?? {};
    if (INTERFACE.ready) this.stop(exports["$name" + "_prepare"](this.call));
  }

  array(field) {
    return new (typeOf(field.dtype))(this.exports.memory.buffer, field.place, countOf(field));
  }

  stop(code) {
    if (code > 0) throw new ProgramError(INTERFACE.errors[code - 1]);
    if (code < 0) throw new ProgramError("the program returned " + code);
  }

  run(inputs = {}) {
    for (const field of this.fields.filter((f) => f.role === "input")) {
      const given = inputs[field.name];
      const array = this.array(field);
      if (given === undefined) throw new ProgramError("the input " + field.name + " is missing");
      const plain = Array.isArray(given);
      if (!plain && given.constructor !== array.constructor) {
        throw new ProgramError(field.name + " has to be a " + array.constructor.name);
      }
      if (given.length !== array.length) {
        throw new ProgramError(field.name + " has " + given.length + " elements, and the program takes " + array.length);
      }
      array.set(plain && field.dtype.endsWith("int64") ? given.map(BigInt) : given);
    }
    this.stop(this.exports["$name" + "_run"](this.call));
    const outputs = this.fields.filter((f) => f.role === "output");
    return Object.fromEntries(outputs.map((f) => [f.name, this.array(f).slice()]));
  }

  // The state as the bytes of a safetensors file, and back.
  saveState() {
    return this.blocks.state?.file();
  }

  loadState(file) {
    this.blocks.state?.read(file);
  }
}

async function bytesOf(url) {
  if (url.protocol === "file:") return new Uint8Array(await (await import("node:fs/promises")).readFile(url));
  const answer = await fetch(url);
  if (!answer.ok) throw new ProgramError(url + ": " + answer.status);
  return new Uint8Array(await answer.arrayBuffer());
}

// Loads the program from where this module lies, or from another place.
export async function load(base = import.meta.url) {
  const names = { wasm: "$name.wasm", weights: "weights.safetensors", state: "state.safetensors" };
  const wanted = Object.keys(names).filter((role) => role === "wasm" || INTERFACE[role].bytes);
  const found = await Promise.all(wanted.map((role) => bytesOf(new URL(names[role], base))));
  const files = Object.fromEntries(wanted.map((role, i) => [role, found[i]]));
  return new Model({ ...files, module: await WebAssembly.compile(files.wasm) });
}

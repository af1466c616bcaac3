/** What the playground's process says: `wengert.play/1`, described in `playground/protocol.py`. */
import type { Arrays } from "../../hosts/stream";
import type { Num, Trace } from "../../trace/types";
import type { StateMessage } from "./onward/python";

export type OptionValue = number | string | boolean;
export type Options = Readonly<Record<string, OptionValue>>;

interface ControlBase {
  readonly name: string;
  readonly label: string;
  readonly default: OptionValue;
  readonly restarts: boolean;
  /** Shown only while another control has this value: its name and the value. */
  /** Switches of one group stand together. */
  readonly group?: string;
  readonly shown_with?: readonly [string, OptionValue];
}
export interface NumberControl extends ControlBase {
  readonly kind: "number";
  readonly low: number;
  readonly high: number;
  readonly whole: boolean;
  readonly logarithmic: boolean;
}
export interface ChoiceControl extends ControlBase {
  readonly kind: "choice";
  readonly choices: readonly string[];
}
export interface SwitchControl extends ControlBase {
  readonly kind: "switch";
}
export interface TextControl extends ControlBase {
  readonly kind: "text";
  readonly longest: number;
}
export type Control = NumberControl | ChoiceControl | SwitchControl | TextControl;

export interface Experiment {
  readonly name: string;
  readonly title: string;
  readonly aside: string;
  readonly view: "line" | "network" | "units" | "flow" | "script";
  readonly series: readonly string[];
  readonly paces: readonly [number, number];
  readonly controls: readonly Control[];
}

export interface Welcome {
  readonly type: "welcome";
  readonly protocol: string;
  readonly experiments: readonly Experiment[];
}

export interface Scene<Values = unknown> {
  readonly type: "scene";
  readonly run: number;
  readonly experiment: string;
  readonly options: Options;
  readonly values: Values;
  readonly arrays: Arrays;
}

/** Series over the steps, thinned. */
export interface History {
  readonly steps: readonly number[];
  readonly [name: string]: readonly Num[];
}

/** What a user's script raised, and where. */
export interface Fault {
  readonly text: string;
  readonly file: string;
  readonly line: number;
  readonly code: string;
}

export interface Frame<Values = unknown> {
  readonly type: "frame";
  readonly run: number;
  readonly step: number;
  readonly last: number;
  readonly horizon: number;
  readonly playing: boolean;
  readonly pace: number;
  readonly options: Options;
  readonly history: History;
  /** The step at which the loss has left every measure; null where it has not. */
  readonly diverged: number | null;
  readonly drifted: boolean;
  readonly fault: Fault | null;
  readonly values: Values;
  readonly arrays: Arrays;
}

export interface TraceMessage {
  readonly type: "trace";
  readonly run: number;
  readonly step: number;
  readonly document: Trace;
}

export interface ErrorMessage {
  readonly type: "error";
  readonly text: string;
}

export interface Closed {
  readonly type: "closed";
}

export type Told = Welcome | Scene | Frame | TraceMessage | StateMessage | ErrorMessage | Closed;

// -- what views of experiments are given

export interface LineScene {
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly truth: readonly [number, number];
  readonly best: readonly [number, number];
  readonly least: Num;
  readonly curvature: Num;
  readonly start: readonly [number, number];
}

export interface LineFrame {
  readonly now: readonly [Num, Num];
  readonly next: readonly [Num, Num];
  readonly gradient: readonly [Num, Num];
  readonly direction: readonly [Num, Num];
  readonly limit: Num | null;
  readonly code: readonly string[];
  readonly lit: number;
}

/** x, y, class (0 or 1). */
export type LabelledPoint = readonly [number, number, number];

export interface PointsScene {
  readonly train: readonly LabelledPoint[];
  readonly test: readonly LabelledPoint[];
  /** The points lie in the square from -reach to reach, nearly all of them. */
  readonly reach: number;
}

export interface NetworkScene extends PointsScene {
  /** The pictures reach from -edge to edge. */
  readonly edge: number;
  /** What the network is given of a point, in the order of its inputs. */
  readonly features: readonly string[];
}

export interface NetworkFrame {
  /** Neurons of the hidden layers. */
  readonly widths: readonly number[];
  /** What the ends of the colours stand for, by neuron, layer after layer. */
  readonly reaches: readonly Num[];
  /** By layer, a row for each of its neurons, a column for each input. */
  readonly weights: readonly (readonly (readonly number[])[])[];
  readonly biases: readonly (readonly number[])[];
}

export interface UnitsFrame {
  /** By layer and unit, the share of the training points for which it is above 0. */
  readonly active: readonly (readonly Num[])[];
  readonly dead: readonly (readonly number[])[];
  readonly leak: boolean;
}

export interface FlowFrame {
  /** Root mean square of what each hidden layer gives. */
  readonly values: readonly Num[];
  /** Norm of the gradient of each layer's weights, the last one included. */
  readonly gradients: readonly Num[];
}

export interface ScriptFrame {
  readonly file: string;
  readonly parameters: readonly { name: string; shape: readonly number[]; size: Num; gradient: Num | null }[];
  /** How many there are, of which the first are told. */
  readonly count: number;
  readonly fault: Fault | null;
}

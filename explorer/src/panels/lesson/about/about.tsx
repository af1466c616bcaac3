/** The part of the lesson that tells more of what is selected, with what runs small scalar graphs again. */
import { useStore } from "../../../state";
import { aboutStyle } from "./style";
import { CurveSection } from "./curve";
import { canGuess, Guess } from "./guess";
import { PathsSection } from "./paths_section";
import { SourceSection } from "./source_section";

export { canMove } from "../../../scalar/run";
export { otherwise, programFor, recompute } from "../../../scalar/recompute";
export { Tensor } from "../../tensor";
export { EdgePanel } from "./edge";
export { LeafValue } from "./leaf_value";

export const css = aboutStyle;

export function AboutNode({ node }: { node: number }) {
  const store = useStore();
  const guessing = store.guessing.value && canGuess(store.model.value, node);
  return (
    <>
      <Guess node={node} />
      {!guessing && <PathsSection node={node} />}
      {!guessing && <CurveSection node={node} />}
      <SourceSection node={node} />
    </>
  );
}

/** The chain rule along one path, step by step: what comes from above, times the local derivative, is handed on. */
import { shownNumber } from "../../format";
import type { Part } from "../../formula/expression";
import { Formula } from "../../formula/view";
import { factorsOf } from "../../panels/lesson/about/paths_section";
import { slopeOf } from "../../scalar/recompute";
import { useStore, type Numbers } from "../../state";
import type { Path } from "./paths";

/** Steps that are shown of a path. */
const MANY = 24;

interface Row {
  readonly edge: number;
  readonly of: Part;
  readonly by: Part;
  readonly above: number;
  readonly local: number;
  readonly handed: number;
}

function Rung({ of, by, above, local, handed }: Row) {
  return (
    <tr>
      <td>
        <Formula parts={[of]} /> → <Formula parts={[by]} />
      </td>
      <td class="wg-grad">{shownNumber(above)}</td>
      <td>
        {shownNumber(local)}{" "}
        <small class="wg-derivative">
          ∂<Formula parts={[of]} />/∂
          <Formula parts={[by]} />
        </small>
      </td>
      <td class="wg-grad">{shownNumber(handed)}</td>
    </tr>
  );
}

export function Climb({ path, numbers }: { path: Path; numbers: Numbers }) {
  const model = useStore().model.value;
  let upstream = 1;
  const rows = factorsOf(model, path)
    .reverse()
    .map(({ edge, of, by }) => {
      const local = slopeOf(model, numbers, edge) ?? Number.NaN;
      const above = upstream;
      upstream = above * local;
      return { edge, of, by, above, local, handed: upstream };
    });
  // Of a long path its two ends say what there is to see: how it begins, and what arrives.
  const long = rows.length > MANY;
  const [head, tail] = long ? [rows.slice(0, MANY / 2), rows.slice(-MANY / 2)] : [rows, []];
  return (
    <table class="wg-climb" aria-label="Local times upstream, from the end of the path back">
      <thead>
        <tr>
          <th scope="col">at</th>
          <th scope="col" class="wg-grad">upstream</th>
          <th scope="col">× local</th>
          <th scope="col" class="wg-grad">= handed on</th>
        </tr>
      </thead>
      <tbody>
        {head.map((row) => (
          <Rung key={row.edge} {...row} />
        ))}
        {long && (
          <tr>
            <td colSpan={4} class="wg-muted">
              {rows.length - MANY} more steps
            </td>
          </tr>
        )}
        {tail.map((row) => (
          <Rung key={row.edge} {...row} />
        ))}
      </tbody>
    </table>
  );
}

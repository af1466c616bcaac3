/** The part of the page that is the playground: the Play tab and its style. */
import styles from "../../styles/playground.css?inline";

export { PlayView } from "./play";
export { PlayTitle } from "./title";

export const css: string = styles;

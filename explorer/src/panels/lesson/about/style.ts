/** The style of what is told of a node: the survey's panels wear it too. */
import styles from "../../../styles/about.css?inline";
import tints from "../../../styles/tints.css?inline";

export const aboutStyle: string = styles + tints;

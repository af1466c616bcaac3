/** A panel above the page: it takes the focus, keeps it, and gives it back. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import styles from "../styles/dialog.css?inline";

interface Props {
  label: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ label, close, children }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  // At once, and not when it has been painted: the next key is for what has the focus then.
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      class="wg-dialog"
      aria-label={label}
      ref={box}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === box.current) close();
      }}
    >
      <style>{styles}</style>
      {children}
    </dialog>
  );
}

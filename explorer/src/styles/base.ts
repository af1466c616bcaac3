/** What every page wears from its first moment; parts bring what else they need. */
import "./tokens.css";
import "./app.css";
import "./graph.css";
import "./panels.css";
import "./clock.css";
import "./tints.css";

/** What every page wears. */
import "./tokens.css";
import "./app.css";
import "./graph.css";
import "./panels.css";
import "./clock.css";
import "./tape.css";
import "./views.css";

// What the pages' scripts put on the window, for the page's own starter and for tests.
interface Window {
  timeroofPage: Record<string, unknown>;
  Plotly: any;
}
declare const Plotly: any;

// What the pages' scripts put on the window, for tests and for pages that draw charts of their own.
interface Window {
  timeroofPage: Record<string, unknown>;
  timeroofCharts: Record<string, unknown>;
}

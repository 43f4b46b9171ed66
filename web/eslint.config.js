import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["src/**/*.js"],
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-shadow": "error",
      "no-implicit-globals": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML"].map((property) => ({ property, message: "Texts of files are hostile: set textContent, or make() an element." }))],
      "no-restricted-syntax": ["error", { selector: "CallExpression[callee.property.name='insertAdjacentHTML']", message: "Texts of files are hostile." }],
    },
  },
  { files: ["*.js"], languageOptions: { globals: globals.node } },
];

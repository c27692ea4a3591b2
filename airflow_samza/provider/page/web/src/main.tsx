import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "./api/client";
import { App } from "./app";
import { shareRouteWithAirflow } from "./route";
import { followTheme } from "./theme";
import "./style.css";

followTheme();
shareRouteWithAirflow();
const place = document.getElementById("page");
if (place) {
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}

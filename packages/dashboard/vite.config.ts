/** How the dashboard becomes static files: hashed names, no inline scripts or styles, so that the strictest CSP fits. */
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2022',
    // A data: URL would need its own permission in the CSP.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // `npm run dev`: the pages from here, the API from a server that runs already.
  server: { proxy: { '/api': 'http://127.0.0.1:7717' } },
})

/** How the dashboard becomes static files: hashed names, each file also compressed, no inline scripts or styles, so that the strictest CSP fits. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/** Compresses the files once, so that the server can send them without work. */
const compressed: Plugin = {
  name: 'compressed',
  writeBundle({ dir = '' }) {
    for (const name of readdirSync(join(dir, 'assets'))) {
      const path = join(dir, 'assets', name)
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }))
    }
  },
}

export default defineConfig({
  plugins: [react(), tailwindcss(), compressed],
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

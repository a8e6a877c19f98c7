/** A real Chromium for tests. It records console errors and uncaught exceptions of a page for assertions. */
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import axe from 'axe-core'
import { chromium as playwright, type Browser, type Page } from 'playwright-core'
import { chromium, home } from './build.js'

export async function openBrowser(): Promise<Browser> {
  return playwright.launch({
    executablePath: chromium(),
    // Root may not use the sandbox, and a container's /dev/shm is small.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
}

export interface Appearance {
  readonly page: Page
  /** Console errors and uncaught exceptions, except those that match. */
  readonly errors: (except?: RegExp) => string[]
  /** The layout shift since the last call. */
  readonly shift: () => Promise<number>
  readonly close: () => Promise<void>
}

export interface LookOptions {
  readonly width?: number
  readonly height?: number
  readonly theme?: 'light' | 'dark'
}

declare global {
  interface Window {
    __shift?: number
    __owned?: unknown
  }
}

export async function look(
  browser: Browser,
  { width = 1_280, height = 800, theme = 'light' }: LookOptions = {},
): Promise<Appearance> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    permissions: ['clipboard-write'],
  })
  const page = await context.newPage()
  // Generous, because other tests may keep the machine busy.
  page.setDefaultTimeout(20_000)
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(`uncaught: ${error.message}`))
  await page.addInitScript(() => {
    window.__shift = 0
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { value, hadRecentInput } = entry as PerformanceEntry & { value: number; hadRecentInput: boolean }
        if (!hadRecentInput) window.__shift = (window.__shift ?? 0) + value
      }
    }).observe({ type: 'layout-shift', buffered: true })
  })
  return {
    page,
    errors: (except) => errors.filter((text) => except === undefined || !except.test(text)),
    shift: () =>
      page.evaluate(() => {
        const moved = window.__shift ?? 0
        window.__shift = 0
        return moved
      }),
    close: () => context.close(),
  }
}

/** Axe violations of impact serious or critical, one line each. */
export async function wrongs(page: Page, rules?: readonly string[]): Promise<string[]> {
  await page.evaluate(`if (!window.axe) { ${axe.source} }`)
  const found: unknown =
    await page.evaluate(`axe.run(document, ${JSON.stringify({ resultTypes: ['violations'], ...(rules === undefined ? {} : { runOnly: rules }) })}).then(({ violations }) =>
    violations.filter((one) => one.impact === 'serious' || one.impact === 'critical').map((one) =>
      one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' | ')))`)
  return found as string[]
}

const forDocs: ReadonlySet<string> = new Set([
  'server-fleet-1280-light',
  'server-board-1280-dark',
  'server-turns-one-1280-light',
  'server-needs-you-390-dark',
])

/** Takes a screenshot. screenshots/ is not committed; DOCS_IMAGES=1 renews the images of the docs. */
export async function picture(page: Page, name: string): Promise<void> {
  const path = join(home, 'screenshots', `${name}.png`)
  await page.screenshot({ path })
  if (process.env['DOCS_IMAGES'] === undefined || !forDocs.has(name)) return
  mkdirSync(join(home, '../../docs/images'), { recursive: true })
  copyFileSync(path, join(home, '../../docs/images', `dashboard-${name.replace('server-', '')}.png`))
}

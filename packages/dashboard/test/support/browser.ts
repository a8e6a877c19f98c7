/** Tabs of the shared Chromium. A tab records console errors, uncaught exceptions and layout shifts for assertions. */
import { defined } from '@bellwether/base'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import axe from 'axe-core'
import { chromium, type Page } from 'playwright-core'
import { inject } from 'vitest'
import { home } from './build.js'

export interface Tab {
  readonly page: Page
  /** Opens a page of the open application, as a link does: about a quarter of the cost of loading it. */
  readonly visit: (path: string) => Promise<void>
  readonly resize: (width: number) => Promise<void>
  /** Console errors and uncaught exceptions since the last call, except those that match. */
  readonly errors: (except?: RegExp) => string[]
  /** The layout shift since the last call. */
  readonly shift: () => Promise<number>
  readonly close: () => Promise<void>
}

declare global {
  interface Window {
    __shift?: number
    __owned?: unknown
  }
}

/** `isFirstVisit`: the page offers its tour, which other tests have seen. */
export async function openTab({ isFirstVisit = false } = {}): Promise<Tab> {
  const browser = await chromium.connect(inject('browser'))
  const context = await browser.newContext({
    viewport: sizeOf(1_280),
    colorScheme: 'light',
    reducedMotion: 'reduce',
    permissions: ['clipboard-write'],
  })
  const page = await context.newPage()
  // Generous, because other tests may keep the machine busy.
  page.setDefaultTimeout(120_000)
  let errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(`uncaught: ${error.message}`))
  if (!isFirstVisit)
    await page.addInitScript(() => {
      // An empty page has no storage.
      if (location.protocol.startsWith('http')) localStorage.setItem('bellwether.tour', 'seen')
    })
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
    visit: (path) => page.evaluate((to) => history.pushState({}, '', to), path),
    resize: (width) => page.setViewportSize(sizeOf(width)),
    errors(except) {
      const found = errors.filter((text) => except === undefined || !except.test(text))
      errors = []
      return found
    },
    shift: () =>
      page.evaluate(() => {
        const moved = window.__shift ?? 0
        window.__shift = 0
        return moved
      }),
    async close() {
      await context.close()
      await browser.close()
    },
  }
}

const sizeOf = (width: number) => ({ width, height: width === 390 ? 844 : 800 })

/** Axe violations of impact serious or critical, one line each. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  await page.evaluate(`if (!window.axe) { ${axe.source} }`)
  // The pages have no frames, and no rule needs the style sheets themselves.
  const options = { resultTypes: ['violations'], iframes: false, preload: false }
  const found: unknown =
    await page.evaluate(`axe.run(document, ${JSON.stringify({ ...options, ...defined({ runOnly: rules }) })}).then(({ violations }) =>
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

/** SCREENSHOTS=1 writes screenshots/, which is not committed; DOCS_IMAGES=1 renews the images of the docs. */
export async function screenshot(page: Page, name: string): Promise<void> {
  const isForDocs = process.env['DOCS_IMAGES'] !== undefined && forDocs.has(name)
  if (process.env['SCREENSHOTS'] === undefined && !isForDocs) return
  const path = join(home, 'screenshots', `${name}.png`)
  await page.screenshot({ path })
  if (!isForDocs) return
  mkdirSync(join(home, '../../docs/images'), { recursive: true })
  copyFileSync(path, join(home, '../../docs/images', `dashboard-${name.replace('server-', '')}.png`))
}

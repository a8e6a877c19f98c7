/** Measures how soon a page can be used, and how much memory it keeps. */
import type { CDPSession, Page } from 'playwright-core'

declare global {
  interface Window {
    __longTasks?: { readonly end: number }[]
  }
}

export async function recordLongTasks(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const tasks: { readonly end: number }[] = []
    window.__longTasks = tasks
    new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) tasks.push({ end: startTime + duration })
    }).observe({ type: 'longtask', buffered: true })
  })
}

// A main thread that was free for this long counts as free.
const quietMs = 500

/**
 * Loads the page. Milliseconds from the start of the navigation until it shows the text and its main thread is free: no task of more
 * than 50 ms began in the half second after it, or the last of them has ended.
 */
export async function interactiveMs(page: Page, url: string, text: string): Promise<number> {
  await page.goto(url, { waitUntil: 'commit' })
  return page.evaluate(
    ({ wanted, quiet }) =>
      new Promise<number>((resolve) => {
        let shownAt: number | undefined
        const look = () => {
          const now = performance.now()
          if (shownAt === undefined && document.body?.textContent.includes(wanted)) shownAt = now
          const end = Math.max(shownAt ?? 0, ...(window.__longTasks ?? []).map((task) => task.end))
          // A later task belongs to what the page does afterwards.
          if (shownAt !== undefined && (now - end > quiet || end - shownAt > 10 * quiet)) resolve(end)
          else requestAnimationFrame(look)
        }
        look()
      }),
    { wanted: text, quiet: quietMs },
  )
}

/** The bytes of the JavaScript heap after a collection. */
export async function heapBytes(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  return usedSize
}

export const median = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN

/** Light, dark, or the system's theme. The choice is one attribute of the page; theme.css holds the colours. */
import { storage } from './ports/storage.js'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

const dark = matchMedia('(prefers-color-scheme: dark)')

export function chosenTheme(): Theme {
  const stored = storage.get('browser', 'theme')
  return themes.find((theme) => theme === stored) ?? 'system'
}

export function chooseTheme(theme: Theme): void {
  storage.set('browser', 'theme', theme === 'system' ? undefined : theme)
  show()
}

function show(): void {
  const theme = chosenTheme()
  document.documentElement.dataset['theme'] = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme
}

/** Applied before the first paint, and when the system theme changes. */
export function startTheme(): void {
  show()
  dark.addEventListener('change', show)
}

/** Light, dark, or as the machine says. The choice is one attribute of the page; the colours are in theme.css. */
import { storage } from './ports/storage.js'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

const dark = matchMedia('(prefers-color-scheme: dark)')

export function chosenTheme(): Theme {
  const told = storage.get('browser', 'theme')
  return themes.find((theme) => theme === told) ?? 'system'
}

export function chooseTheme(theme: Theme): void {
  storage.set('browser', 'theme', theme === 'system' ? undefined : theme)
  show()
}

function show(): void {
  const theme = chosenTheme()
  document.documentElement.dataset['theme'] = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme
}

/** Before the first paint, and whenever the machine changes its mind. */
export function startTheme(): void {
  show()
  dark.addEventListener('change', show)
}

/** Switches between light, dark and the system's theme. */
import { useState } from 'react'
import { chosenTheme, chooseTheme, themes } from '../theme.js'
import { Icon } from '../parts/glyph.js'

const icons = { system: 'screen', light: 'sun', dark: 'moon' } as const

export function ThemeSwitch() {
  const [theme, setTheme] = useState(chosenTheme)
  const next = themes[(themes.indexOf(theme) + 1) % themes.length]!
  return (
    <button
      type="button"
      className="button px-2"
      aria-label={`Theme: ${theme}. Change to ${next}`}
      title={`Theme: ${theme}`}
      onClick={() => {
        chooseTheme(next)
        setTheme(next)
      }}
    >
      <Icon name={icons[theme]} />
      <span className="hidden text-xs md:inline">{theme}</span>
    </button>
  )
}
